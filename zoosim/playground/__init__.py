"""A simulated shop whose visitors come to a running service over HTTP, in simulated time.

    with ServiceProcess(folder, champion) as service, Client(service.url) as client:
        shop = Shop(small_shop(draw_visitors(seed=0), appeal, seed=0), service.url, service.time)
        client.deploy("launch", arm="new", model=client.keep_model(challenger.read_bytes()))
        shop.visit(lambda shop: shop.hours > 24)

A program or a person may then `shop.shock()`, `shop.break_pixel()`, set `shop.traffic`, and `service.kill_learner()`.
"""

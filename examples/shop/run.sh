#!/usr/bin/env bash
# From a shop's tables to a policy that decides: run it where zoosim is installed.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
shop=${1:-runs/shop}

python "$here/make_shop.py" "$shop"
zoosim schema "$shop/shop.csv" --products "$shop/products.csv" --out "$shop/schema.yaml"
zoosim import "$shop/shop.csv" "$shop/schema.yaml" "$shop/log.parquet"
zoosim train "$shop/log.parquet" --policy linear --policy mlp --policy linucb --policy adaptive --out "$shop/model.zoosim"
zoosim evaluate "$shop/log.parquet" --policy "$shop/model.zoosim" --policy random
python "$here/decide.py" "$shop/model.zoosim"

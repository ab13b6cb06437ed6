#!/usr/bin/env bash
# From a shop's tables to a policy that decides; run it where zoosim is installed (. .venv/bin/activate).
set -euo pipefail
shop=${1:-runs/shop}
truth=$(dirname "${BASH_SOURCE[0]}")/shop.py

python "$truth" make "$shop"
zoosim schema "$shop/shop.csv" --products "$shop/products.csv" --out "$shop/schema.yaml"
zoosim import "$shop/shop.csv" "$shop/schema.yaml" "$shop/log.parquet"
zoosim train "$shop/log.parquet" --policy mixed-effects --policy linear --policy linucb --policy adaptive --out "$shop/model.zoosim"
zoosim evaluate "$shop/log.parquet" --policy "$shop/model.zoosim" --policy random --out "$shop/judged"
python "$truth" judge "$shop/model.zoosim"

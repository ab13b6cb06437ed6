"""The version of zoosim, which all packages may name."""

VERSION = "0.1.0"

"""The groups of settings, one room each; `soulsgui.config.schema` joins them."""

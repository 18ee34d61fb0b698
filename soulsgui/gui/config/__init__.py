"""The page of the configuration: the editor of config.yaml as a form, as text and as differences."""

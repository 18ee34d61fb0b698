"""The window: Qt widgets that know the control API's messages and the settings, and nothing else."""

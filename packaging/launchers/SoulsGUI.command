#!/bin/sh
# Starts SoulsGUI on macOS by double click; the first start sets it up in this terminal window.
cd "$(dirname "$0")/../.." || exit 1
for python in python3.13 python3.12 python3.11 python3; do
    if command -v "$python" >/dev/null 2>&1 &&
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$python" packaging/bootstrap.py "$@"
    fi
done
echo "SoulsGUI needs Python 3.11 or newer: https://www.python.org/downloads/macos/"
echo "Install it and double-click this file again. Press Return to close."
read -r _

#!/bin/sh
# Puts SoulsGUI into this user's applications menu, with its icon; `remove` takes it out again.
set -eu
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
icons=$(cd "$here/../../resources/icons/app" && pwd)
data="${XDG_DATA_HOME:-$HOME/.local/share}"
entry="$data/applications/soulsgui.desktop"
sizes="16 24 32 48 64 128 256 512"
if [ "${1:-}" = remove ]; then
    rm -f "$entry"
    for size in $sizes; do rm -f "$data/icons/hicolor/${size}x$size/apps/soulsgui.png"; done
    echo "SoulsGUI is out of the menu; its folder is untouched."
    exit 0
fi
mkdir -p "$(dirname "$entry")"
# In a desktop entry a quoted argument escapes these, and a percent sign is doubled.
script=$(printf '%s' "$here/soulsgui.sh" | sed -e 's/[\\"`$]/\\\\&/g' -e 's/%/%%/g')
awk -v line="Exec=\"$script\"" '/^Exec=/ { print line; next } /^#/ { next } { print }' \
    "$here/SoulsGUI.desktop" >"$entry"
for size in $sizes; do
    folder="$data/icons/hicolor/${size}x$size/apps"
    mkdir -p "$folder"
    cp "$icons/app-$size.png" "$folder/soulsgui.png"
done
if command -v update-desktop-database >/dev/null 2>&1; then
    update-desktop-database "$(dirname "$entry")"
fi
echo "SoulsGUI is in the menu ($entry)."

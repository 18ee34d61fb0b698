#!/bin/sh
# Puts SoulsGUI into this user's applications menu, with its icon, and lets it open invitations (.soulsgui files
# and soulsgui:// links); `remove` takes it out again.
set -eu
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
icons=$(cd "$here/../../resources/icons/app" && pwd)
data="${XDG_DATA_HOME:-$HOME/.local/share}"
entry="$data/applications/soulsgui.desktop"
kind="$data/mime/packages/soulsgui.xml"
tell_desktop() {
    if command -v update-desktop-database >/dev/null 2>&1; then
        update-desktop-database "$(dirname "$entry")"
    fi
    if command -v update-mime-database >/dev/null 2>&1; then
        update-mime-database "$data/mime"
    fi
}
sizes="16 24 32 48 64 128 256 512"
if [ "${1:-}" = remove ]; then
    rm -f "$entry" "$kind"
    for size in $sizes; do rm -f "$data/icons/hicolor/${size}x$size/apps/soulsgui.png"; done
    if [ -d "$data/mime" ] && [ -d "$(dirname "$entry")" ]; then tell_desktop; fi
    echo "SoulsGUI is out of the menu; its folder is untouched."
    exit 0
fi
mkdir -p "$(dirname "$entry")" "$(dirname "$kind")"
# In a desktop entry a quoted argument escapes these, and a percent sign is doubled.
script=$(printf '%s' "$here/soulsgui.sh" | sed -e 's/[\\"`$]/\\\\&/g' -e 's/%/%%/g')
awk -v line="Exec=\"$script\" -- gui %u" '/^Exec=/ { print line; next } /^#/ { next } { print }' \
    "$here/SoulsGUI.desktop" >"$entry"
for size in $sizes; do
    folder="$data/icons/hicolor/${size}x$size/apps"
    mkdir -p "$folder"
    cp "$icons/app-$size.png" "$folder/soulsgui.png"
done
cp "$here/soulsgui-mime.xml" "$kind"
tell_desktop
echo "SoulsGUI is in the menu ($entry)."

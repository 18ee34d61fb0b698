#!/bin/sh
# Starts SoulsGUI by double click. The first start sets it up, which takes minutes: it is shown in a
# terminal window where there is one. Later starts open the window at once and write to a log.
here=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd) || exit 1
root=$(dirname "$here")
if [ -e "$root/.venv/bootstrap.json" ]; then
    log="${XDG_STATE_HOME:-$HOME/.local/state}/SoulsGUI/start.log"
    mkdir -p "$(dirname "$log")" && exec python3 "$here/bootstrap.py" "$@" >"$log" 2>&1
fi
for terminal in x-terminal-emulator gnome-terminal konsole xfce4-terminal xterm; do
    command -v "$terminal" >/dev/null 2>&1 || continue
    case $terminal in
    gnome-terminal) exec "$terminal" --wait -- python3 "$here/bootstrap.py" "$@" ;;
    xfce4-terminal) exec "$terminal" --disable-server -x python3 "$here/bootstrap.py" "$@" ;;
    *) exec "$terminal" -e python3 "$here/bootstrap.py" "$@" ;;
    esac
done
exec python3 "$here/bootstrap.py" "$@"

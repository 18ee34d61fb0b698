"""Telemetry: every finished episode stored, averaged, judged and shown.

Rooms: `aggregate` (attempts on the axes, moving mean, best model, goal) and `intake` (what an episode is) are
pure; `store` is the SQLite file with its writer and its queries; `recorder` joins them; `streams` and `node`
are the process around it; `export` and `figure` make telemetry.json and telemetry.png.
"""

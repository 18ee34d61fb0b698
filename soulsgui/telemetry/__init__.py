"""Telemetry: every finished episode stored, averaged, judged and shown.

Rooms: `aggregate` (moving mean, best model, goal) and `curve` (attempts on the axes) are pure; `store` is the
SQLite file with its writer and its queries; `recorder` joins them; `intake`, `streams`, `metrics` and `node`
are the process around it; `export`, `figure` and `drawing` make telemetry.json and telemetry.png.
"""

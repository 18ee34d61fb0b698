"""The form for settings, built from their schema: `spec` is pure, `editors`, `row` and `form` are widgets."""

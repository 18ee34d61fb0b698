"""What each command of the control API does, one module per group; `table` names them all."""

"""Who may play for the server: invitations, access control, certificate, roster."""

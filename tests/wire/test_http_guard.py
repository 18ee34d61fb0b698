import pytest

from soulsgui.wire.http_guard import why_refused


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "127.0.0.1:1", "Authorization": "Bearer secret"}, 0),
        ({"Host": "[::1]:1", "Authorization": "bearer secret"}, 0),
        ({"Host": "localhost", "Origin": "http://localhost", "Authorization": "Bearer secret"}, 0),
        ({"Host": "evil.example:1", "Authorization": "Bearer secret"}, 403),
        ({"Host": "localhost", "Origin": "http://evil.example", "Authorization": "Bearer secret"}, 403),
        ({"Host": "localhost"}, 401),
        ({"Host": "localhost", "Authorization": "Bearer ü"}, 401),
        ({"Host": "localhost", "Authorization": "Basic secret"}, 401),
    ],
)
def test_only_our_names_and_the_token_open_it(headers: dict[str, str], status: int) -> None:
    assert (why_refused(headers, "secret") or (0, ""))[0] == status


def test_without_a_token_none_is_asked_for_and_beyond_loopback_any_name_will_do() -> None:
    assert why_refused({"Host": "localhost"}, "") is None
    shown = {"Host": "server.lan:9478", "Authorization": "Bearer secret"}
    assert why_refused(shown, "secret", loopback=False) is None
    assert why_refused({"Host": "server.lan"}, "secret", loopback=False) == (
        401,
        "The token is wrong or missing.",
    )

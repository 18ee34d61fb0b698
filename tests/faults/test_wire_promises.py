"""Where each promise about the wire, and about who may use it, is put to the test."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROMISES: dict[str, tuple[str, ...]] = {
    "R8: a re-send after a lost reply is stored once": (
        "faults/test_network.py::test_what_is_pushed_into_a_frozen_server_is_stored_once",
        "sampling/test_stream.py::test_a_push_into_a_frozen_server_is_stored_once",
        "sampling/test_stream.py::test_stored_entries_are_not_sent_again_after_a_lost_reply",
    ),
    "R9: network gone: drop and count, or wait; bounded; back in 5 s": (
        "faults/test_network.py::"
        "test_a_client_that_may_drop_plays_on_without_a_network_and_counts_what_it_dropped",
        "faults/test_network.py::test_a_buffer_that_is_full_without_a_network_drops_the_oldest",
        "faults/test_network.py::test_a_client_that_may_wait_waits_without_a_network_and_loses_nothing",
        "end_to_end/test_invitation.py::"
        "test_a_computer_without_torch_across_the_network_is_back_after_the_cable_was_pulled",
    ),
    "R10: a half-open connection is noticed in 30 s": (
        "faults/test_network.py::test_a_half_open_connection_is_noticed",
    ),
    "R17: revoked: socket closed in 1 s, chunks refused": (
        "end_to_end/test_invitation.py::test_an_invited_computer_plays_until_it_is_revoked",
        "runner/test_gate.py::test_a_revoked_client_is_cut_off_its_chunks_refused_and_others_go_on",
        "runner/test_gate.py::test_who_is_revoked_while_the_server_is_away_is_out_when_it_comes_back",
    ),
    "R18: beyond its rights a client is refused: the whole matrix, on each server program": (
        "wire/test_access.py::test_everything_else_is_refused",
        "wire/test_access.py::test_what_a_client_needs_is_allowed",
        "runner/test_gate.py::test_each_of_its_own_clients_has_a_user_of_its_own_with_a_clients_rights_alone",
    ),
    "R19: two clients with one id": (
        "sampling/test_identity.py::test_a_name_in_use_is_refused_and_nothing_is_written",
        "sampling/test_identity.py::test_a_name_whose_owner_is_silent_is_taken_over",
        "sampling/test_identity.py::test_a_name_that_is_surely_free_is_taken_without_waiting",
        "sampling/test_uploader.py::"
        "test_an_uploader_whose_name_was_taken_over_tells_the_pusher_and_stays_silent",
        "end_to_end/test_invitation.py::"
        "test_a_second_computer_with_the_same_file_stops_before_it_writes_anything",
    ),
    "R20: clocks wrong by an hour, also stepped while running": (
        "faults/test_clocks.py::test_a_client_whose_clock_is_wrong_and_stepped_plays_as_any_other",
        "faults/test_clocks.py::test_a_trainer_whose_clock_is_stepped_trains_on",
        "faults/test_clocks.py::"
        "test_clients_play_on_when_a_server_without_its_data_comes_back_an_hour_earlier",
        "faults/test_clocks.py::test_the_age_of_a_beat_is_believed_only_where_the_beat_stands_still",
        "wire/test_fleet.py::test_stepped_clock_of_the_server_changes_nothing",
        "runner/test_encryption.py::test_a_client_with_a_wrong_clock_is_let_in",
    ),
    "R21: the server's address changes: back in 30 s": (
        "faults/test_network.py::test_a_client_is_back_when_the_name_of_its_server_means_another_address",
    ),
    "R31: entry ids after restarts, a trimmed stream, one refused of two": (
        "sampling/test_stream.py::test_a_restarted_session_takes_nothing_for_a_repeat",
        "sampling/test_stream.py::test_a_server_that_kept_its_data_gets_no_duplicates",
        "sampling/test_stream.py::test_a_server_that_lost_its_data_gets_a_new_hello",
        "sampling/test_stream.py::test_one_refused_of_two_pipelined_goes_again_and_only_it",
    ),
    "No secret in ps, an environment or a log; TLS beyond private networks": (
        "end_to_end/test_secrets.py::test_no_process_of_the_machine_shows_a_secret",
        "end_to_end/test_secrets.py::test_secrets_stand_in_private_files_alone_and_in_no_log",
        "runner/test_encryption.py::test_beyond_private_networks_it_listens_with_encryption_alone",
        "end_to_end/test_invitation.py::test_with_encryption_a_computer_plays_from_beyond_private_networks",
        "wire/test_tls.py::test_a_stranger_with_another_certificate_hears_nothing",
    ),
}


@cache
def _tests_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("promise", PROMISES)
def test_the_tests_of_a_promise_are_there(promise: str) -> None:
    for place in PROMISES[promise]:
        file, _, name = place.partition("::")
        assert name in _tests_in(file), place

"""What is promised when something fails, and the tests that put each promise to the test.

`README.md` beside this file shows the same as a table: `python -m tests.faults.promises` writes it anew.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
README = Path(__file__).with_name("README.md")


@dataclass(frozen=True)
class Promise:
    """One promise.

    Attributes:
        what: The promise, in words.
        tests: Where it is tested: `file::function`, below `tests/`.
    """

    what: str
    tests: tuple[str, ...]


_FLEET = (
    "faults/test_fleet.py::"
    "test_many_clients_come_at_once_are_seen_and_trained_with_and_are_back_after_a_restart_of_the_server"
)

PROMISES = {
    "R1": Promise(
        "A killed trainer is started again and resumes from its newest checkpoint; the curve goes on, the "
        "model id never goes back",
        (
            "end_to_end/test_faults.py::test_a_killed_trainer_is_restarted_and_the_curve_goes_on",
            "end_to_end/test_dqn.py::test_a_killed_trainer_goes_on_from_its_checkpoint",
        ),
    ),
    "R2": Promise(
        "Killed while it saves: never a checkpoint that can't be loaded, never a lost older one",
        (
            "faults/test_checkpoint_kills.py::test_25_kills_leave_a_whole_checkpoint_each",
            "faults/test_checkpoint_kills.py::test_200_kills_leave_a_whole_checkpoint_each",
        ),
    ),
    "R3": Promise(
        "100 updates after a resume are equal to the bit to 100 without the stop",
        ("training/test_nodes.py::test_100_updates_after_a_resume_are_equal_to_the_bit",),
    ),
    "R4": Promise(
        "Redis killed (-9): nothing that it had accepted is lost, training goes on within 5 s; after a "
        "power cut about a second may be missing, and is counted",
        (
            "faults/test_killed_server.py::test_what_a_killed_server_had_accepted_is_trained_on",
            "faults/test_killed_server.py::test_20_kills_of_the_server_lose_nothing",
            "faults/test_entry_ids.py::test_what_a_power_cut_took_is_a_gap_that_is_counted",
            "end_to_end/test_faults.py::test_a_killed_server_is_back_and_nothing_is_lost",
        ),
    ),
    "R5": Promise(
        "The append-only file is damaged: Redis starts, and what was lost is told",
        (
            "runner/server/test_redis_server.py::test_an_incomplete_end_of_its_file_is_cut_off_and_told",
            "runner/server/test_redis_server.py::test_a_file_damaged_in_the_middle_is_repaired_and_told",
        ),
    ),
    "R6": Promise(
        "A client killed in mid-episode: the others keep 95 % of their rate, at most its open segment is "
        "lost",
        (
            "faults/test_killed_client.py::"
            "test_one_of_three_killed_in_mid_episode_costs_its_open_segment_alone",
            "faults/test_killed_client.py::test_one_of_eight_killed_leaves_the_others_their_rate",
        ),
    ),
    "R7": Promise(
        "The same in synchronous PPO: the round closes in `ppo.round_timeout`, waits or stops, as "
        "configured; who comes back is in the next round",
        (
            "faults/test_frozen_client.py::test_one_of_two_frozen_is_treated_as_configured",
            "faults/test_frozen_client.py::test_one_of_four_frozen_is_treated_as_configured",
        ),
    ),
    "R8": Promise(
        "What is sent again after a lost reply is stored once",
        (
            "faults/test_network.py::test_what_is_pushed_into_a_frozen_server_is_stored_once",
            "sampling/test_stream.py::test_stored_entries_are_not_sent_again_after_a_lost_reply",
        ),
    ),
    "R9": Promise(
        "No network for a minute: sampling goes on within a bounded buffer and what was dropped is "
        "counted, or it waits; back within 5 s",
        (
            "faults/test_network.py::"
            "test_a_client_that_may_drop_plays_on_without_a_network_and_counts_what_it_dropped",
            "faults/test_network.py::test_a_buffer_that_is_full_without_a_network_drops_the_oldest",
            "faults/test_network.py::test_a_client_that_may_wait_waits_without_a_network_and_loses_nothing",
            "end_to_end/test_invitation.py::"
            "test_a_computer_without_torch_across_the_network_is_back_after_the_cable_was_pulled",
            "wire/test_connection.py::test_a_network_that_returns_is_found_within_seconds",
        ),
    ),
    "R10": Promise(
        "A half-open connection is noticed within 30 s",
        ("faults/test_network.py::test_a_half_open_connection_is_noticed",),
    ),
    "R11": Promise(
        "A trainer that sleeps: credits hold the clients back, Redis stays under its memory limit, nothing"
        " dies",
        (
            "faults/test_slow_trainer.py::test_credits_hold_clients_back_while_the_trainer_sleeps",
            "faults/test_slow_trainer.py::test_credits_hold_clients_back_for_as_long_as_a_trainer_may_sleep",
            "faults/test_slow_trainer.py::test_a_memory_that_fills_up_is_warned_of_freed_and_the_run_goes_on",
        ),
    ),
    "R12": Promise(
        "A client that floods is cut off within 10 s; weights still go out",
        ("faults/test_flood.py::test_a_flooder_is_cut_off_and_weights_still_go_out",),
    ),
    "R13": Promise(
        "1,000 clients at once: all connected within 5 s, their beats seen, the table of a window at 5 Hz",
        (_FLEET,),
    ),
    "R14": Promise(
        "The server restarts under 1,000 clients: all back within 15 s",
        (_FLEET,),
    ),
    "R15": Promise(
        "Garbage, NaN, wrong shapes, too much, stale, of other lineages, replayed, or a key overwritten "
        "with another type: none reaches the learner, nothing crashes, all is counted by reason and client",
        (
            "faults/test_bad_chunks.py::test_fuzzed_messages_reach_no_learner_and_are_all_counted",
            "faults/test_bad_columns.py::"
            "test_bad_masks_states_and_frames_reach_no_learner_and_are_all_counted",
            "faults/test_fuzz.py::test_1000_forged_chunks_reach_the_learner_in_no_harmful_form",
            "faults/test_fuzz.py::test_100000_forged_chunks_reach_the_learner_in_no_harmful_form",
            "faults/test_fuzz.py::test_a_client_that_sends_garbage_harms_nobody",
            "faults/test_fuzz.py::test_10000_garbage_messages_harm_nobody",
        ),
    ),
    "R16": Promise(
        "A pickle is never executed",
        (
            "faults/test_bad_chunks.py::test_a_pickle_is_never_executed",
            "end_to_end/test_faults.py::test_garbage_in_a_stream_is_counted_shown_and_harmless",
        ),
    ),
    "R17": Promise(
        "Who is revoked has no connection within 1 s, and sends nothing more",
        (
            "end_to_end/test_invitation.py::test_an_invited_computer_plays_until_it_is_revoked",
            "runner/access/test_access_control.py::test_a_revoked_client_is_cut_off_its_chunks_refused_and_others_go_on",
            "runner/access/test_access_control.py::test_who_is_revoked_while_the_server_is_away_is_out_when_it_comes_back",
        ),
    ),
    "R18": Promise(
        "Beyond its rights a client is refused: the whole matrix, on each server program",
        (
            "wire/test_access.py::test_everything_else_is_refused",
            "wire/test_access.py::test_what_a_client_needs_is_allowed",
            "runner/access/test_access_control.py::"
            "test_each_of_its_own_clients_has_a_user_of_its_own_with_a_clients_rights_alone",
        ),
    ),
    "R19": Promise(
        "Two clients with one name: the second stops before it writes anything, or takes over when the "
        "first has been silent for 5 s",
        (
            "sampling/test_identity.py::test_a_name_in_use_is_refused_and_nothing_is_written",
            "sampling/test_identity.py::test_a_name_whose_owner_is_silent_is_taken_over",
            "sampling/test_identity.py::test_a_name_that_is_surely_free_is_taken_without_waiting",
            "sampling/test_uploader.py::"
            "test_an_uploader_whose_name_was_taken_over_tells_the_pusher_and_stays_silent",
            "end_to_end/test_invitation.py::"
            "test_a_second_computer_with_the_same_file_stops_before_it_writes_anything",
        ),
    ),
    "R20": Promise(
        "Clocks that are wrong by an hour, or stepped while everything runs, the server's too: no effect",
        (
            "faults/test_clocks.py::test_a_client_whose_clock_is_wrong_and_stepped_plays_as_any_other",
            "faults/test_clocks.py::test_a_trainer_whose_clock_is_stepped_trains_on",
            "faults/test_clocks.py::"
            "test_clients_play_on_when_a_server_without_its_data_comes_back_an_hour_earlier",
            "faults/test_clocks.py::test_the_age_of_a_beat_is_believed_only_where_the_beat_stands_still",
            "wire/test_beats.py::test_stepped_clock_of_the_server_changes_nothing",
            "runner/access/test_certificate.py::test_a_client_with_a_wrong_clock_is_let_in",
        ),
    ),
    "R21": Promise(
        "The server's name means another address: clients are back within 30 s",
        ("faults/test_network.py::test_a_client_is_back_when_the_name_of_its_server_means_another_address",),
    ),
    "R22": Promise(
        "The disk is full: the older checkpoint stays, the run pauses, says so and goes on by itself",
        (
            "end_to_end/test_full_disk.py::"
            "test_a_run_on_a_full_disk_pauses_goes_on_and_does_not_end_as_saved",
            "training/test_checkpoint.py::test_a_full_disk_keeps_the_older_checkpoint",
            "runner/server/test_redis_server.py::test_a_full_disk_is_not_a_dead_server",
        ),
    ),
    "R24": Promise(
        "The runner is killed (-9): the services go on and log; the next one adopts each exactly once",
        (
            "runner/services/test_supervisor.py::"
            "test_a_service_outlives_its_runner_goes_on_logging_and_is_adopted_once",
            "end_to_end/test_invitation.py::test_the_rules_stand_when_redis_and_the_runner_are_killed",
        ),
    ),
    "R25": Promise(
        "A service that fails at every start is given up after 5 tries, with cause and last lines",
        (
            "runner/services/test_supervisor.py::"
            "test_one_that_fails_at_every_start_is_given_up_with_cause_and_last_lines",
        ),
    ),
    "R26": Promise(
        "All is stopped within 15 s and leaves no process, also children that ignore the signal",
        (
            "runner/services/test_supervisor.py::test_closing_ends_stubborn_children_and_grandchildren",
            "end_to_end/test_faults.py::test_shut_down_leaves_nothing",
        ),
    ),
    "R27": Promise(
        "A forged or reused process id: a stranger is never signalled",
        ("runner/services/test_supervisor.py::test_a_stranger_under_a_forged_record_is_never_signalled",),
    ),
    "R28": Promise(
        "An environment that raises, hangs or leaks is made anew, with the traceback on the client's card;"
        " a hang is killed",
        (
            "faults/test_bad_environments.py::"
            "test_a_game_that_raises_is_made_anew_by_the_restart_hook_and_its_traceback_told",
            "faults/test_bad_environments.py::"
            "test_a_game_that_hangs_is_killed_with_its_process_and_played_anew",
            "faults/test_bad_environments.py::"
            "test_a_game_that_leaks_is_ended_with_its_process_and_played_anew",
            "faults/test_bad_environments.py::test_a_game_that_gets_slow_is_made_anew",
            "faults/test_bad_environments.py::test_workers_are_mended_without_an_end_of_the_client",
            "faults/test_bad_environments.py::"
            "test_a_supervised_client_ends_with_an_error_for_its_runner_to_start_it_again",
        ),
    ),
    "R29": Promise(
        "A configuration with mistakes is refused before anything starts: file, line, key, reason, nearest"
        " key",
        ("test_cli.py::test_five_mistakes_are_refused_with_place_reason_and_nearest_key",),
    ),
    "R31": Promise(
        "Entry ids, when a client or the server restarts, a stream was trimmed, or one of two pushes is "
        "refused: nothing is stored twice, nothing new is taken for a repeat",
        (
            "faults/test_entry_ids.py::test_no_chunk_of_a_restarted_client_is_taken_for_a_repeat",
            "faults/test_entry_ids.py::test_a_restarted_server_stores_nothing_twice",
            "faults/test_entry_ids.py::test_a_trimmed_stream_takes_what_comes_next",
            "faults/test_entry_ids.py::test_of_two_pipelined_pushes_the_refused_one_goes_again_alone",
            "sampling/test_stream.py::test_a_server_that_lost_its_data_gets_a_new_hello",
            "sampling/test_stream.py::test_one_refused_of_two_pipelined_goes_again_and_only_it",
        ),
    ),
    "S": Promise(
        "No secret in a list of processes, an environment or a log; encryption beyond private networks",
        (
            "end_to_end/test_secrets.py::test_no_process_of_the_machine_shows_a_secret",
            "end_to_end/test_secrets.py::test_secrets_stand_in_private_files_alone_and_in_no_log",
            "runner/access/test_certificate.py::test_beyond_private_networks_it_listens_with_encryption_alone",
            "end_to_end/test_invitation.py::"
            "test_with_encryption_a_computer_plays_from_beyond_private_networks",
            "wire/test_tls.py::test_a_stranger_with_another_certificate_hears_nothing",
        ),
    ),
}

_HEAD = """\
# Faults: what is promised, and where it is tested

The tests injure a real server, real processes and real connections. Their quick forms are part of the suite;
the full counts are marked `slow`:

    python -m pytest tests/faults tests/end_to_end -m slow

At its end a session prints one table: each promise with what was injected, what was lost and how long
recovery took. A test tells these through the fixture `report`. This list is written by
`python -m tests.faults.promises`.

| promise | test | form |
|---|---|---|
"""


@cache
def forms(file: str) -> dict[str, str]:
    """Return the form of each test of a file: `quick`, `slow`, or `quick, slow` when it has both."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    named = {
        target.id: ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            whole = any(mark == "pytest.mark.slow" for mark in marks)
            used = [*marks, *(named.get(mark.rpartition(", ")[2].rstrip(")"), "") for mark in marks)]
            some = any("mark.slow" in text for text in used)
            found[node.name] = "slow" if whole else "quick, slow" if some else "quick"
    return found


def rows(promises: Mapping[str, Promise]) -> str:
    """Return a row of the table for each test of each promise."""
    found = []
    for name, promise in promises.items():
        first = f"**{name}** {promise.what}"
        for place in promise.tests:
            file, _, test = place.partition("::")
            found.append(f"| {first} | `{file}` `{test}` | {forms(file)[test]} |\n")
            first = ""
    return "".join(found)


def readme() -> str:
    """Return the text of `README.md`."""
    return _HEAD + rows(PROMISES)


if __name__ == "__main__":
    README.write_text(readme(), encoding="utf-8")

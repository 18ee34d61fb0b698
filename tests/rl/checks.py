"""What is checked of the mathematics of learning, and the tests that do it.

`README.md` beside this file shows the same as a table: `python -m tests.rl.checks` writes it anew.
"""

from pathlib import Path

from tests.faults.promises import Promise, rows

README = Path(__file__).with_name("README.md")


def _check(what: str, *tests: str) -> Promise:
    return Promise(what, tests)


RECOMMENDED = {
    "M1": _check(
        "PPO's clipped policy loss, 0.25 to start with",
        "rl/losses/test_policy.py::test_only_gains_beyond_the_clip_are_cut_off",
        "rl/agents/test_ppo_actions.py::test_the_gradient_is_that_of_the_loss_written_out",
        "config/test_shipped.py::test_ppo_is_what_its_sources_recommend",
    ),
    "M2a": _check(
        "The last policy layer begins 100 times smaller, weights orthogonal, two hidden layers of tanh",
        "rl/networks/test_mlp.py::test_weights_are_orthogonal_and_scaled_and_biases_zero",
        "rl/networks/test_mlp.py::test_a_small_last_layer_makes_a_nearly_uniform_policy",
    ),
    "M2b": _check(
        "Deviations by softplus with an offset, 0.5 at first; or by an exponential",
        "policies/test_distributions.py::test_deviations_begin_at_the_initial_one_and_never_vanish",
        "rl/test_distributions.py::test_deviations_are_those_of_numpy",
    ),
    "M2c": _check(
        "Actions squashed by tanh",
        "policies/test_distributions.py::test_actions_stay_within_the_bounds_and_densities_finite_however_far_out",
    ),
    "M2d": _check(
        "Separate networks by default; shared ones to be chosen",
        "config/test_shipped.py::test_ppo_is_what_its_sources_recommend",
        "rl/agents/test_ppo.py::test_shared_layers_are_the_same_and_moved_by_both_losses",
    ),
    "M3a": _check(
        "Observations normalised and limited",
        "policies/test_normalise.py::test_normalised_rows_have_mean_0_and_variance_1",
        "policies/test_normalise.py::test_changes_nothing_before_the_first_batch_but_clips",
    ),
    "M3b": _check(
        "Value normalisation to be chosen",
        "rl/agents/test_ppo.py::test_normalised_targets_are_those_of_gae_after_the_way_back",
        "rl/test_normalisation.py::test_statistics_are_those_of_all_targets_together",
    ),
    "M3c": _check(
        "Gradients shortened to a norm",
        "rl/networks/test_mlp.py::test_a_long_gradient_is_shortened_and_a_short_one_kept",
    ),
    "M3d": _check(
        "Advantages normalised in each minibatch, over the round, or not",
        "rl/agents/test_ppo.py::test_advantages_are_scaled_over_what_is_set",
    ),
    "M4": _check(
        "λ 0.9, no Huber loss, no clipping of values; both to be chosen",
        "config/test_shipped.py::test_ppo_is_what_its_sources_recommend",
        "rl/losses/test_policy.py::test_clipped_value_loss_takes_the_larger_of_both_errors",
        "rl/losses/test_policy.py::test_huber_is_square_up_to_its_threshold_and_linear_beyond",
    ),
    "M5a": _check(
        "Single transitions shuffled in each of several passes",
        "rl/agents/test_ppo.py::"
        "test_every_transition_is_used_once_a_pass_in_minibatches_of_nearly_equal_size",
    ),
    "M5b": _check(
        "Advantages recomputed once per pass",
        "rl/agents/test_ppo.py::test_each_pass_learns_from_advantages_of_the_values_before_it_if_wanted",
    ),
    "M6": _check(
        "γ 0.99; truncation bootstraps from the final observation",
        "config/test_shipped.py::test_ppo_is_what_its_sources_recommend",
        "rl/test_returns.py::test_at_truncation_the_value_of_the_final_observation_counts",
    ),
    "M7": _check(
        "Adam, β₁ 0.9, 3e-4, with a linear decay",
        "rl/test_optimiser.py::test_every_step_is_that_of_torch_and_so_are_those_after_a_restart",
        "rl/agents/test_ppo.py::test_adam_takes_what_is_set_at_each_update",
        "rl/agents/test_ppo.py::test_schedules_follow_the_run_and_are_told",
        "config/test_shipped.py::test_ppo_is_what_its_sources_recommend",
    ),
    "M8": _check(
        "No regulariser; the presets of this source and of the 37 details differ as these do",
        "config/test_shipped.py::test_ppo_is_what_its_sources_recommend",
        "rl/agents/test_ppo.py::test_every_choice_changes_what_is_learned",
    ),
}

EXACT = {
    "E1a": _check(
        "GAE by hand: inside an episode",
        "rl/test_returns.py::test_inside_an_episode_errors_decay_with_gamma_times_lambda",
    ),
    "E1b": _check(
        "GAE by hand: at termination",
        "rl/test_returns.py::test_at_termination_the_next_value_counts_for_nothing",
    ),
    "E1c": _check(
        "GAE by hand: at truncation",
        "rl/test_returns.py::test_at_truncation_the_value_of_the_final_observation_counts",
    ),
    "E1d": _check(
        "GAE by hand: over a segment boundary",
        "rl/test_returns.py::test_nothing_crosses_from_one_segment_into_another",
        "experience/test_segments.py::test_an_episode_in_pieces_has_the_advantages_of_the_whole",
        "rl/agents/test_recurrent_ppo.py::test_advantages_are_those_of_whole_chains",
    ),
    "E1e": _check(
        "GAE: λ = 1 is the Monte-Carlo advantage",
        "rl/test_returns.py::test_lambda_1_is_the_monte_carlo_return_minus_the_value",
    ),
    "E1f": _check(
        "GAE: λ = 0 is the TD error",
        "rl/test_returns.py::test_lambda_0_is_the_td_error",
    ),
    "E2a": _check(
        "n steps: sums of γᵏ r, and γⁿ at the bootstrap",
        "rl/test_returns.py::"
        "test_rewards_are_summed_with_powers_of_gamma_and_the_bootstrap_has_gamma_to_the_n",
        "rl/test_returns.py::test_equals_the_sum_written_out_for_any_episodes",
    ),
    "E2b": _check(
        "n steps: a tail shorter than n at termination",
        "rl/test_returns.py::test_a_tail_that_terminates_has_no_future",
    ),
    "E2c": _check(
        "n steps: a tail at truncation bootstraps from the final observation; without that one there is none",
        "rl/test_returns.py::test_a_tail_that_is_truncated_bootstraps_from_its_final_observation",
        "rl/buffers/test_replay.py::test_arrays_that_do_not_fit_together_are_refused_and_change_nothing",
        "rl/buffers/test_episode_links.py::test_a_gap_ends_the_window",
    ),
    "E3a": _check(
        "The target of double DQN",
        "rl/losses/test_q_learning.py::test_double_lets_the_online_network_choose_and_the_target_network_value",
        "rl/agents/test_dqn.py::test_without_double_the_target_network_chooses",
    ),
    "E3b": _check(
        "Dueling: the mean advantage is zero",
        "rl/networks/test_q_networks.py::"
        "test_dueling_advantages_have_mean_0_so_that_the_mean_over_actions_is_the_value",
    ),
    "E3c": _check(
        "Huber",
        "rl/losses/test_q_learning.py::test_the_loss_is_half_the_square_and_with_huber_linear_from_1_on",
    ),
    "E3d": _check(
        "QR-DQN by hand",
        "rl/losses/test_q_learning.py::test_the_loss_of_a_case_worked_out_by_hand",
    ),
    "E3e": _check(
        "QR-DQN on rewards of N(0, 10): its quantiles have a deviation of 10",
        "rl/losses/test_q_learning.py::test_quantiles_learned_from_scattered_rewards_keep_their_spread",
        "rl/agents/test_dqn.py::test_learned_quantiles_are_as_wide_as_the_rewards",
    ),
    "E3f": _check(
        "C51: the projection keeps mass, and the mean inside the support",
        "rl/losses/test_q_learning.py::test_mass_and_mean_are_kept_inside_the_support",
        "rl/agents/test_dqn.py::test_learned_atoms_have_the_probabilities_of_the_rewards",
    ),
    "E3g": _check(
        "IQN on the same rewards",
        "rl/losses/test_q_learning.py::test_implicit_quantiles_learned_at_random_levels_keep_their_spread",
        "rl/agents/test_dqn.py::test_learned_quantiles_are_as_wide_as_the_rewards",
    ),
    "E4a": _check(
        "V-trace on-policy: n-step returns",
        "rl/losses/test_policy.py::test_on_policy_targets_are_n_step_returns",
    ),
    "E4b": _check(
        "V-trace: both clips as in the paper",
        "rl/losses/test_policy.py::test_a_case_worked_out_by_hand_with_both_clips",
        "rl/losses/test_policy.py::test_equals_the_sum_of_the_definition_for_any_segments",
    ),
    "E5a": _check(
        "Sum tree: its total",
        "rl/buffers/test_prioritised.py::test_the_total_is_the_sum_of_the_leaves",
        "rl/buffers/test_prioritised.py::test_any_updates_leave_exact_sums_on_every_level",
    ),
    "E5b": _check(
        "Sum tree: proportions, by χ²",
        "rl/buffers/test_prioritised.py::test_draws_are_in_proportion_to_the_values",
        "rl/buffers/test_prioritised.py::test_draws_are_in_proportion_to_the_errors_to_the_power_of_alpha",
    ),
    "E5c": _check(
        "Sum tree: an index that repeats in one update",
        "rl/buffers/test_prioritised.py::"
        "test_of_an_index_that_repeats_in_one_update_the_last_value_holds_and_the_sums_count_it_once",
    ),
    "E5d": _check(
        "Importance weights",
        "rl/buffers/test_prioritised.py::test_weights_undo_the_proportions_and_the_largest_is_1",
        "rl/buffers/test_prioritised.py::test_weighted_draws_give_the_mean_over_all_transitions",
    ),
    "E6": _check(
        "Running statistics are those of the whole batch over any split",
        "policies/test_normalise.py::test_equals_the_statistics_of_all_rows_over_any_split",
    ),
    "E7a": _check(
        "SAC: the temperature",
        "rl/losses/test_policy.py::test_the_temperature_rises_while_the_entropy_is_below_its_target",
        "rl/test_learning_sac.py::test_the_temperature_becomes_that_of_the_entropy_to_keep",
    ),
    "E7b": _check(
        "The correction of tanh, by numerical integration",
        "policies/test_distributions.py::"
        "test_the_squashed_density_integrates_to_1_and_its_entropy_is_the_integral",
        "rl/test_distributions.py::test_numpy_and_torch_agree_on_10000_actions",
    ),
    "E8": _check(
        "Memory over segment boundaries is one long unroll",
        "rl/networks/test_recurrent.py::test_segments_with_their_states_handed_on_equal_one_long_unroll",
        "rl/agents/test_recurrent_ppo.py::test_however_a_chain_is_cut_it_is_one_long_unroll",
        "rl/agents/test_r2d2.py::test_an_update_is_what_a_loop_over_steps_says",
    ),
    "E9": _check(
        "Save and load of each agent: the same actions, the same next update",
        "rl/agents/test_contract.py::test_a_resumed_agent_acts_alike_and_goes_on_to_the_bit",
    ),
}

TRAPS = {
    "T1": _check(
        "The reset step of vector environments is no transition",
        "environments/test_step.py::test_every_autoreset_mode_gives_the_transitions_of_single_environments",
    ),
    "T2": _check(
        "Statistics stand still per model: the first ratio is 1",
        "rl/agents/test_contract.py::test_the_ratio_is_1_on_the_first_minibatch_of_every_round",
        "rl/agents/test_ppo.py::test_statistics_change_only_with_the_update_that_used_the_old_ones",
        "rl/agents/test_recurrent_ppo.py::test_the_ratio_is_1_until_the_first_gradient_step",
        "rl/agents/test_vtrace.py::test_samples_of_the_present_weights_have_ratio_1",
    ),
    "T3": _check(
        "Policies in numpy and torch agree on 10,000 inputs",
        "rl/agents/test_contract.py::test_clients_say_and_do_what_the_agent_does",
        "rl/agents/test_ppo_actions.py::test_the_same_noise_gives_the_same_action",
        "rl/agents/test_sac.py::test_clients_act_as_the_actor_says_on_10000_inputs",
        "rl/agents/test_recurrent_ppo.py::test_numpy_and_torch_agree_over_a_long_unroll",
    ),
    "T4": _check(
        "The best model of off-policy agents is that of greedy evaluations",
        "config/test_rules.py::test_who_evaluates_and_ranks_by_it",
        "telemetry/test_recorder.py::test_models_are_ranked_by_their_evaluation_where_that_is_chosen",
    ),
    "T5a": _check(
        "PPO's curve of a seed is equal to the bit, whoever delivers first",
        "training/learners/test_lockstep.py::test_the_same_seed_gives_the_same_curve_to_the_bit",
        "rl/test_learning.py::test_the_same_seed_gives_the_same_curve",
        "rl/buffers/test_rollout.py::test_segments_come_in_the_order_of_client_environment_episode_and_step",
        "rl/buffers/test_rollout.py::test_the_batch_does_not_depend_on_what_came_first_or_together",
    ),
    "T5b": _check(
        "Off-policy curves are equal to the bit in lockstep",
        "training/learners/test_lockstep.py::test_the_same_seed_gives_the_same_curve_to_the_bit",
    ),
    "T6": _check(
        "What is shipped is the tuned PPO of CartPole",
        "config/test_shipped.py::test_ppo_is_what_its_sources_recommend",
        "rl/test_learning.py::test_cartpole_is_solved_within_60000_steps",
    ),
}

SECTIONS = {
    "What matters in on-policy learning (arXiv 2006.05990)": RECOMMENDED,
    "Exact checks: closed forms and oracles": EXACT,
    "Traps": TRAPS,
}

_HEAD = """\
# Learning: what is checked, and where

Closed forms, oracles and traps of the mathematics, each with its tests. This list is written by
`python -m tests.rl.checks`.
"""
_COLUMNS = "| check | test | form |\n|---|---|---|\n"


def readme() -> str:
    """Return the text of `README.md`."""
    tables = [f"\n## {name}\n\n{_COLUMNS}{rows(checks)}" for name, checks in SECTIONS.items()]
    return _HEAD + "".join(tables)


if __name__ == "__main__":
    README.write_text(readme(), encoding="utf-8")

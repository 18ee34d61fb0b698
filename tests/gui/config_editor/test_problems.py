from soulsgui.gui.config_editor.problems import by_key, by_line, read_problems, sentence

UNKNOWN = {
    "source": "config.yaml",
    "line": 4,
    "key": "ppo.gama",
    "value": None,
    "reason": "is not a setting.",
    "nearest": "ppo.gamma",
}
RANGE = {
    "source": "config.yaml",
    "line": 4,
    "key": "ppo.clip",
    "value": 70,
    "reason": "should be at most 10",
    "nearest": "",
}
ELSEWHERE = {
    "source": "preset x",
    "line": 2,
    "key": "seed",
    "value": -1,
    "reason": "should be at least 0.",
    "nearest": "",
}
BROKEN = {
    "source": "config.yaml",
    "line": 9,
    "key": "",
    "value": None,
    "reason": "not valid YAML: x",
    "nearest": "",
}


def test_each_mistake_is_a_sentence_with_its_place() -> None:
    assert [sentence(problem) for problem in read_problems([UNKNOWN, RANGE, ELSEWHERE, BROKEN])] == [
        "Line 4: ppo.gama is not a setting. Did you mean ppo.gamma?",
        "Line 4: ppo.clip = 70: should be at most 10.",
        "preset x: seed = -1: should be at least 0.",
        "Line 9: Not valid YAML: x.",
    ]


def test_mistakes_by_setting_and_by_line() -> None:
    problems = read_problems([UNKNOWN, RANGE, ELSEWHERE, BROKEN])
    assert set(by_key(problems)) == {"ppo.gama", "ppo.clip", "seed"}
    lines = by_line(problems)
    assert set(lines) == {4, 9}
    assert lines[4].count("\n") == 1

"""Task parameters: what is accepted, and that all mistakes come at once, with a remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.taskparams import INPUT, problems

from jedi.core.errors import BadInput, Problem
from jedi.model.datasets.dataset import Attributes
from jedi.model.splitting.split_rules import SplitRules, render_split_rule
from jedi.model.tasks import unsupported
from jedi.model.tasks.params import InputItem, TaskParams
from jedi.model.tasks.text import parse_text, validate

EXAMPLES = sorted(Path(__file__).parents[3].joinpath("examples").glob("*.yaml"))

OUTPUT = {"type": "template", "param_type": "output", "value": "> o.${SN}.txt", "dataset": "a:out"}
NUMBER = {"type": "template", "param_type": "number", "value": "${RNDMSEED}"}


def task(*items: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A good task that reads one dataset and writes another, with these items and keys besides."""
    return {"taskName": "t", "jobParameters": [INPUT, OUTPUT, *items], **keys}


def without_input(**keys: Any) -> dict[str, Any]:
    return {"taskName": "t", "noInput": True, "jobParameters": [OUTPUT], "transPath": "x", **keys}


def only_problem(document: Any) -> Problem:
    (problem,) = problems(document)
    return problem


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_good(path: Path) -> None:
    params = validate(parse_text(path.read_text(), path.suffix[1:]))
    assert all((path.parent / name).is_file() for name in params.sandbox)


def test_a_first_task_is_ten_lines() -> None:
    hello = next(path for path in EXAMPLES if path.stem == "hello")
    assert len(hello.read_text().splitlines()) <= 10


def test_defaults_are_filled_in() -> None:
    stored = validate(task()).dump()
    expected = {
        "vo": "local",
        "prodSourceLabel": "user",
        "processingType": "generic",
        "architecture": "",
        "transUses": "",
        "coreCount": 1,
        "noInput": False,
    }
    assert expected.items() <= stored.items()
    assert "userName" not in stored and "transPath" not in stored
    assert validate(stored).dump() == stored


def test_null_means_not_said() -> None:
    assert validate(task(transPath=None, transHome=None, site=None)) == validate(task())


def test_everything_wrong_is_told_at_once() -> None:
    document = task(
        {"type": "constant", "value": 5},
        {"type": "template", "param_type": "outptu", "value": "x"},
        {**OUTPUT, "datset": "a:b", "dataset": "no name"},
        taskNam="x",
        nFilesPerJob="5",
        mergeSpec=7,
        taskPriority=1.5,
        maxAttempt=2,
        maxFailure=3,
        log={"dataset": "a:log", "valu": "x"},
    )
    del document["taskName"]
    assert {p.path for p in problems(document)} == {
        "taskName",
        "taskNam",
        "nFilesPerJob",
        "mergeSpec",
        "taskPriority",
        "maxFailure",
        "jobParameters[2].value",
        "jobParameters[3]",
        "jobParameters[4].dataset",
        "jobParameters[4].datset",
        "log.value",
        "log.valu",
    }


@pytest.mark.parametrize(
    ("document", "path", "meant"),
    [
        (task(nFilePerJob=5), "nFilePerJob", "nFilesPerJob"),
        (task(tasname="x"), "tasname", "taskName"),
        (task({**INPUT, "datasets": "a:b"}), "jobParameters[2].datasets", "dataset"),
        (task({**INPUT, "param_type": "inptu"}), "jobParameters[2]", "input"),
        (task(log={**OUTPUT, "param_type": "log", "dataest": "a:b"}), "log.dataest", "dataset"),
        (task({"type": "constant", "value": "${INN}"}), "jobParameters[2].value", "IN"),
    ],
)
def test_mistyped_words_get_a_suggestion(document: Any, path: str, meant: str) -> None:
    problem = only_problem(document)
    assert (problem.path, problem.remedy) == (path, f"Did you mean {meant}?")


@pytest.mark.parametrize("key", sorted(unsupported.TASK_KEYS))
def test_keys_of_features_to_come_are_refused_by_name(key: str) -> None:
    problem = only_problem(task(**{key: 1}))
    assert (problem.path, problem.rule) == (key, "not supported yet")
    assert problem.remedy == unsupported.TASK_KEYS[key]


def test_no_key_is_both_here_and_to_come() -> None:
    known = {field.alias or name for name, field in TaskParams.model_fields.items()}
    assert not known & unsupported.TASK_KEYS.keys()


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"type": "constant", "value": "${XML_OUTMAP}"}, "jobParameters[2].value"),
        ({"type": "constant", "value": "${XML_OUTMAP}"}, "jobParameters[2].value"),
        ({**INPUT, "param_type": "pseudo_input"}, "jobParameters[2]"),
    ],
)
def test_forms_to_come_are_refused(item: dict[str, Any], path: str) -> None:
    problem = only_problem(task(item))
    assert (problem.path, problem.rule) == (path, "not supported yet")


def test_datasets_for_a_stream_are_added_to_its_item() -> None:
    first, _ = validate(task(dsForIN="demo:b, demo:c")).job_parameters
    assert isinstance(first, InputItem)
    assert first.datasets == ["demo:in", "demo:b", "demo:c"]
    document = {**task(dsForIN2="a:b", dsForIN=5)}
    assert {p.path for p in problems(document)} == {"dsForIN2", "dsForIN"}


def test_a_task_is_not_its_own_parent() -> None:
    assert only_problem(task(parentTaskName="t")).path == "parentTaskName"


def test_hints_stand_among_the_attributes() -> None:
    second = {**INPUT, "value": "${IN2}", "dataset": "a:b", "attributes": "manytime,cvmfs,ic"}
    found = validate(task(second)).items(InputItem)[1].split
    assert (found.many_time, found.cvmfs, found.index_consistent) == (True, True, True)
    assert Attributes.parse(found.render()) == found


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (task(noInput=True), "noInput"),
        ({**task(), "jobParameters": [OUTPUT]}, "jobParameters"),
        (without_input(nEvents=5), "nEvents"),
        (without_input(nGBPerJob=5), "nGBPerJob"),
        (without_input(workflowHoldup=True), "workflowHoldup"),
        (task(nFilesPerJob=5, nMaxFilesPerJob=4), "nMaxFilesPerJob"),
        (task(respectLB=True, groupBoundaryID=3), "respectLB"),
        (task(respectLB=True, groupBoundaryID=4), "respectLB"),
        (
            task(addNthFieldToLFN=[1], useFileAsSourceLFN=True, groupBoundaryID=3),
            "addNthFieldToLFN",
        ),
        (task(maxAttempt=2, maxFailure=3), "maxFailure"),
        ({**without_input(transPath=None), "jobParameters": []}, "jobParameters"),
        (task({**OUTPUT, "dataset": "a:other"}), "jobParameters[2].value"),
        (task({**OUTPUT, "value": "${OUTPUT1}> o.${SN/P}.txt"}), "jobParameters[2].value"),
        (task({**OUTPUT, "value": "> p.${SN}", "dataset": "demo:in"}), "jobParameters[2].dataset"),
        (task({**OUTPUT, "value": "> p.txt"}), "jobParameters[2].value"),
        (task({**OUTPUT, "value": "> ${SN}/p.txt"}), "jobParameters[2].value"),
        (task({**OUTPUT, "value": "> ${RNDMSEED}.${SN}"}), "jobParameters[2].value"),
        (task({**INPUT, "dataset": "demo:in2"}), "jobParameters[2].value"),
        (task({**INPUT, "value": "${IN2}"}), "jobParameters[2].dataset"),
        (task({**NUMBER, "value": "7"}), "jobParameters[2].value"),
        (task({"type": "constant", "value": "${HOME}"}), "jobParameters[2].value"),
        (task({"type": "constant", "value": "${OUTPUT1}"}), "jobParameters[2].value"),
        ({**task(), "jobParameters": [{**INPUT, "ratio": 2}, OUTPUT]}, "jobParameters[0].ratio"),
    ],
)
def test_contradictions(document: Any, path: str) -> None:
    assert only_problem(document).path == path


def test_false_without_quotes_is_a_truth_value() -> None:
    problem = str(only_problem(task(transPath=False)))
    assert (
        "must be text, but YAML reads false without quotes as a truth value. Write it in q"
        in problem
    )


def test_two_outputs_can_not_come_from_one_file() -> None:
    items = [{**OUTPUT, "value": f"{n}.${{SN}}", "sourceName": "same"} for n in "ab"]
    assert only_problem(task(*items)).path == "jobParameters[3].sourceName"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("taskPriority", -1),
        ("taskPriority", 10_001),
        ("maxAttempt", 0),
        ("coreCount", -1),
        ("coreCount", True),
        ("nFiles", 2**31),
        ("nFiles", 0),
        ("nGBPerJob", 0.0),
        ("nGBPerJob", float("inf")),
        ("esFraction", 0.0),
        ("esFraction", 1.01),
        ("site", "../etc"),
        ("vo", "two words"),
        ("taskName", ""),
        ("taskName", "a\nb"),
        ("taskType", "other"),
        ("noInput", "yes"),
        ("sandbox", "one.sh"),
        ("jobParameters", {}),
    ],
)
def test_values_out_of_range(key: str, value: object) -> None:
    assert problems(task(**{key: value}))[0].path.startswith(key)


@pytest.mark.parametrize("bad", ["../x", "/etc", "a:../b", "a:/b", "a:b/c", "a:.b", ":b", "a:", ""])
@pytest.mark.parametrize("item", [INPUT, OUTPUT])
def test_path_tricks_in_dataset_names(item: dict[str, Any], bad: str) -> None:
    items = [INPUT, OUTPUT]
    items[items.index(item)] = {**item, "dataset": bad}
    assert only_problem({**task(), "jobParameters": items}).path.endswith(".dataset")


def test_what_goes_place_by_place_is_not_skipped_file_by_file() -> None:
    beside = {**INPUT, "value": "${IN2}", "dataset": "demo:beside", "indexConsistent": True}
    found = only_problem(task(beside, skipFilesUsedBy=[1]))
    assert (found.path, found.value) == ("skipFilesUsedBy", [1])


def test_every_job_makes_what_is_merged() -> None:
    spec = {"transPath": "sort", "jobParameters": "${TRN_OUTPUT0/S} > ${OUTPUT0}"}
    document = task(mergeOutput=True, mergeSpec=spec)
    document["jobParameters"] = [INPUT, {**OUTPUT, "allowNoOutput": True}]
    found = only_problem(document)
    assert found.rule == "merging needs this output from every job"


def test_what_is_malformed_is_not_said_to_be_lacking() -> None:
    spec = {"transPath": "sort", "jobParameters": "${TRN_OUTPUT0/S} > ${OUTPUT0}"}
    document = task(mergeOutput=True, mergeSpec=spec)
    document["jobParameters"] = [INPUT, {**OUTPUT, "value": "> out.txt"}]
    assert only_problem(document).path == "jobParameters[1].value"


def test_sound_items_are_checked_beside_a_faulty_one() -> None:
    """README: all mistakes at once. By hand: no item feeds ${NOTHING} or ${IN2}; the faulty item is
    the output ${OUTPUT1}, so nothing lacks there; ${OUTPUT2} there is none."""
    faulty = {**OUTPUT, "value": "p.${SN}", "foo": 2}
    line = "| wc ${NOTHING} ${SN} ${IN2} ${OUTPUT1} ${OUTPUT2}"
    spec = {"jobParameters": "${TRN_OUTPUT1} ${TRN_OUTPUT2}"}
    document = task(faulty, {"type": "constant", "value": line}, mergeOutput=True, mergeSpec=spec)
    assert [(p.path, p.value) for p in problems(document)] == [
        ("jobParameters[2].foo", 2),
        ("mergeSpec.jobParameters", "${TRN_OUTPUT2}"),
        ("jobParameters[3].value", "${NOTHING}"),
        ("jobParameters[3].value", "${IN2}"),
        ("jobParameters[3].value", "${OUTPUT2}"),
    ]


@pytest.mark.parametrize(
    "faulty",
    [
        {**INPUT, "value": "${MORE}", "dataset": "wrong name"},
        {**INPUT, "value": "${MORE}", "dataset": "demo:more", "num_records": "x"},
        {**INPUT, "value": "${MORE}", "param_type": "inptu"},
        {"type": "template", "param_type": "input", "dataset": "demo:more"},
        {"type": "template", "value": "${MORE}"},
        5,
    ],
    ids=str,
)
def test_placeholders_that_a_faulty_item_may_feed_are_not_reported(faulty: Any) -> None:
    """Each item may feed ${MORE}, once it is corrected: only its own mistake counts, and that of a
    form that no correction can give sense."""
    line = {"type": "constant", "value": "${MORE} ${SN/X}"}
    found = problems({**task(), "jobParameters": [INPUT, OUTPUT, faulty, line]})
    assert [p.value for p in found if p.path.startswith("jobParameters[3]")] == ["${SN/X}"]
    assert {p.path.partition(".")[0] for p in found[:-1]} == {"jobParameters[2]"}


def test_a_faulty_command_or_input_is_not_reported_as_lacking() -> None:
    assert (
        only_problem(
            {
                **without_input(),
                "jobParameters": [{"type": "constant", "value": 5}],
                "transPath": None,
            }
        ).path
        == "jobParameters[0].value"
    )
    items = [{**INPUT, "foo": 1}, OUTPUT]
    assert only_problem({**task(), "jobParameters": items}).path == "jobParameters[0].foo"


def test_a_faulty_key_is_not_reported_as_lacking_elsewhere() -> None:
    """A mistake of splitter, buildSpec or sourceURL does not make their placeholders wrong."""
    line = {"type": "constant", "value": "${UNIT/A} ${LIB} ${SURL}"}
    keys = {"splitter": {"name": ""}, "buildSpec": 3, "sourceURL": 5}
    assert {p.path for p in problems(task(line, **keys))} == {
        "splitter.name",
        "buildSpec",
        "sourceURL",
    }


@pytest.mark.parametrize("bad", ["../o", "/o", ".o", "a/b", "a..b", "x" * 300])
def test_path_tricks_in_file_names(bad: str) -> None:
    value = {**OUTPUT, "value": f"> {bad}.${{SN}}"}
    source = {**OUTPUT, "value": "> p.${SN}", "sourceName": bad}
    assert only_problem(task(value)).path == "jobParameters[2].value"
    assert only_problem(task(source)).path == "jobParameters[2].sourceName"


def test_shell_expansions_are_left_to_the_shell() -> None:
    validate(task({"type": "constant", "value": "x=$HOME; echo ${x%.*} $(date) $ATTEMPTNR"}))


@pytest.mark.parametrize(
    ("text", "format", "word"),
    [
        ("a: 1\na: 2", "yaml", "repeated"),
        ("a: &x [1]\nb: *x", "yaml", "aliases"),
        ("1: a", "yaml", "not text"),
        ("a: [1", "yaml", "line 1"),
        ("x: !!python/object/apply:os.system ['true']", "yaml", "tag"),
        ('{"a": 1, "a": 2}', "json", "repeated"),
        ('{"a": NaN}', "json", "number"),
        ('{"a": "\\u0000"}', "json", "stored"),
        ('{"a": "\\ud800"}', "json", "stored"),
        ("{", "json", "line 1"),
        ("[" * 100_000, "json", "nested"),
        ("[" * 100_000, "yaml", "nested"),
        ("{}", "toml", "yaml or json"),
    ],
)
def test_malformed_texts(text: str, format: str, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        parse_text(text, format)


@pytest.mark.parametrize("document", [None, [], "text", 5, {}])
def test_documents_that_are_no_task(document: object) -> None:
    assert problems(document)


def test_numbers_and_truths_in_place_of_text_are_told_to_be_quoted() -> None:
    document = {**task(), **parse_text("taskName: no\nvo: 5", "yaml")}
    assert [p.remedy for p in problems(document)] == ["Write it in quotes"] * 2


def test_yaml_and_json_mean_the_same() -> None:
    document = task(nFilesPerJob=3)
    as_yaml = parse_text(yaml.safe_dump(document), "yaml")
    assert as_yaml == parse_text("\ufeff" + json.dumps(document), "json") == document


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.sampled_from([f.alias or n for n, f in TaskParams.model_fields.items()]), JSON)
def test_any_value_of_any_key_is_accepted_or_explained(key: str, value: object) -> None:
    try:
        validate(task(**{key: value}))
    except BadInput as error:
        assert all(p.rule and p.remedy and str(p) for p in error.problems)


@pytest.mark.long
@given(st.lists(st.dictionaries(st.sampled_from(sorted({*INPUT, "offset", "ratio"})), JSON)))
def test_any_item_is_accepted_or_explained(items: list[dict[str, Any]]) -> None:
    try:
        validate({"taskName": "t", "jobParameters": items})
    except BadInput as error:
        assert error.problems


POSITIVE = st.floats(0.001, 1e6).map(lambda x: float(f"{x:.6g}"))


def _any_value(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a rule, by what its JSON Schema says."""
    one = next((option for option in schema.get("anyOf", ()) if option["type"] != "null"), schema)
    if "const" in one or "enum" in one:
        return st.sampled_from(one.get("enum", [one.get("const")]))
    match one["type"]:
        case "boolean":
            return st.just(True)
        case "array":
            return st.lists(st.integers(1, 99), min_size=1)
        case "string":
            return st.from_regex(one["pattern"], fullmatch=True).filter(lambda t: len(t) <= 128)
        case "number":
            return POSITIVE
    return st.integers(one["minimum"], one["maximum"])


RULES = {
    name: st.none() | _any_value(schema)
    for name, schema in SplitRules.model_json_schema(by_alias=False)["properties"].items()
    if "code" in schema
}


@given(st.fixed_dictionaries({}, optional=RULES).map(lambda given: SplitRules(**given)))
def test_each_rule_that_is_given_is_in_the_text(rules: SplitRules) -> None:
    every = SplitRules.model_json_schema(by_alias=False)["properties"]
    given = [every[name]["code"] for name in rules.model_dump(exclude_none=True)]
    parts = (part.partition("=") for part in render_split_rule(rules).split(","))
    assert [code for code, sign, _ in parts if sign] == given


def test_every_rule_has_two_letters_of_its_own() -> None:
    every = SplitRules.model_json_schema(by_alias=False)["properties"]
    assert len(RULES) == len(every) - len({"included_site", "excluded_site"})
    assert len({every[name]["code"] for name in RULES}) == len(RULES)


@pytest.mark.parametrize("key", sorted(unsupported.KEPT))
def test_what_is_kept_only_is_warned_of(key: str) -> None:
    (warning,) = unsupported.kept({key: 1})
    assert warning == f"{key} is kept, but changes nothing: {unsupported.KEPT[key]}."
    assert key in {field.alias for field in TaskParams.model_fields.values()}


def test_split_rule_text() -> None:
    rules = SplitRules(n_files_per_job=5, n_gb_per_job=2, respect_lb=True, full_chain="require")
    assert render_split_rule(rules) == "NF=5,NG=2,RL=1,FU=2"
    listed = SplitRules(add_nth_field_to_lfn=[3, 5], ip_stack="IPv6")
    assert render_split_rule(listed) == "AN=3,5,IK=6"


@given(st.builds(Attributes, POSITIVE, st.booleans(), st.booleans(), st.integers(0, 10**6)))
def test_attributes_survive_their_text(attributes: Attributes) -> None:
    assert Attributes.parse(attributes.render()) == attributes


def test_the_schema_is_exported() -> None:
    schema = TaskParams.model_json_schema()
    assert set(schema["required"]) == {"taskName", "jobParameters"}
    assert schema["additionalProperties"] is False

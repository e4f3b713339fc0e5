"""The rules of a plan; make itself is asked what they do."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError, UserError
from moses_bridge.base.experiment import split_experiment
from moses_bridge.cli import main as moses_bridge
from tuning.cli import main
from tuning.experiments.description import read_experiment
from tuning.experiments.plan import Rule, plan_graph, plan_rules, plan_text
from tuning.experiments.run import PACKAGED, SIZES

EXPERIMENTS = Path(__file__).resolve().parents[3] / "tuning" / "experiments"
PIPELINE = EXPERIMENTS.parents[1] / "docs" / "pipeline.md"
TINY = EXPERIMENTS / "tiny.toml"
DOMAIN = [EXPERIMENTS / "small.toml", EXPERIMENTS / "domain" / "lists.toml"]
BEST = [EXPERIMENTS / "small.toml", EXPERIMENTS / "best.toml"]
IMPROVE = [EXPERIMENTS / "improve.toml"]
ALL = {
    "improve": IMPROVE,
    "tiny": [TINY],
    "full": [EXPERIMENTS / "full.toml"],
    "domain": DOMAIN,
    "best": BEST,
    "paper": [EXPERIMENTS / "full.toml", EXPERIMENTS / "paper.toml"],
}
# What rules.mk gives a plan, as far as a test needs it.
VARIABLES = """\
PLAN := plan.mk
CONFIG := config
B := b
CORPUS := corpus
MODEL := b/model
NETWORKS ?= b
LISTS ?= b/lists/folds.gz
FILTERED := b/filtered/phrase-table.gz
SOURCE := en
TARGET := fr
DEV := corpus/dev
TEST := corpus/test
INPUTS := corpus/dev.en corpus/test.en
BIN := bin
STEP = step
TUNE = tune
RERANK = rerank
TRANSLATE = translate
COMPARE = compare
REPORT = report
FRESH = @fresh $@
LINKS := links
given = --given $(1) $(2)
JOBS := 1
named = as $(1)
corpus/%: ;
config/%: ;
"""
GOAL = "all: $(TABLES) b/report.html\n"


def rules_of(paths: list[Path], *changes: str) -> dict[str, Rule]:
    return {rule.target: rule for rule in plan_rules(read_experiment(paths, changes))}


def made(folder: Path, paths: list[Path], goal: str, *changes: str) -> list[str]:
    """What make would run for a goal."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    (folder / "plan.mk").write_text(plan_text(read_experiment(paths, changes)))
    (folder / "Makefile").write_text(f"all:\n{VARIABLES}include plan.mk\n{GOAL}")
    told = subprocess.run(
        ["make", "-n", "-r", "--no-print-directory", goal],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout.splitlines()


def test_the_system_of_three_lines_in_the_documentation_has_its_rules(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    (shown,) = re.findall(r"```toml\n# mine\.toml\n(.*?)```", PIPELINE.read_text(), re.DOTALL)
    assert len(shown.splitlines()) == 1 + 3
    mine.write_text(shown)
    before, after = rules_of([TINY]), rules_of([TINY, mine])
    runs = [f"$(B)/runs/nnjm-wp-{seed}/weights.json" for seed in (1, 2, 3)]
    assert after.keys() - before.keys() == {*runs, "$(B)/runs/nnjm-wp.translated"}
    run = after[runs[1]]
    assert run.needs == (
        "$(B)/tables/rnn+wp/moses.ini",
        "$(B)/runs/start/weights.json",
        "$(B)/nnjm/trained",
        "$(CONFIG)/tune.toml",
    )
    assert run.recipe == (
        "$(FRESH)",
        "$(STEP) $(TUNE) --ini $(B)/tables/rnn+wp/moses.ini --out $(@D) --seed 2 "
        "--init-weights $(B)/runs/start/weights.json --config $(CONFIG)/tune.toml "
        '--neural-lm "NNJM0=$(BIN)/rescorer serve $(B)/nnjm --unnormalized" $(call named,nnjm-wp-2)',
    )
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"$(B)/table.json"}
    (command,) = after["$(B)/table.json"].recipe
    assert (
        "'+NNJM+WP=$(B)/runs/nnjm-wp-1,$(B)/runs/nnjm-wp-2,$(B)/runs/nnjm-wp-3' --control"
        in command
    )


def refused(path: Path, languages: list[str]) -> None:
    raise UserError("nothing is fetched")


@pytest.mark.parametrize("scale", SIZES)
@pytest.mark.parametrize("more", sorted({file for file, _ in PACKAGED.values()}))
def test_the_settings_of_each_experiment_are_those_of_a_corpus(
    more: str, scale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is checked before text is fetched, also where its language has no blanks."""
    files = [EXPERIMENTS / file for file in (f"{scale}.toml", more) if file]
    split_experiment(read_experiment(files).files, tmp_path)
    (recipe,) = rules_of(files)["$(B)/corpus/train.$(SOURCE)"].recipe
    for target in ("fr", "ja"):
        assert fetched_by(recipe, target, tmp_path, monkeypatch) == "nothing is fetched"


def test_the_settings_of_the_domain_are_those_of_a_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = (EXPERIMENTS / "domain" / "domain.mk").read_text()
    (recipe,) = (line for line in rules.splitlines() if "moses-bridge corpus" in line)
    for target in ("fr", "ja", "zh"):
        assert fetched_by(recipe, target, tmp_path, monkeypatch) == "nothing is fetched"


@pytest.mark.parametrize(
    "changed", ["corpus/train.en", "model/phrase-table.gz", "domain/mine/dev.fr"]
)
def test_make_domain_notices_what_changed_with_its_date_kept(tmp_path: Path, changed: str) -> None:
    """Its first files, which all others need, are made anew then, and not where nothing changed."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    texts = [f"domain/mine/{part}" for part in ("dev", "test", "train-5")]
    for name in ("corpus/train", *texts):
        for suffix in ("en", "fr", "groups"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / f"{name}.{suffix}").write_text(f"{name}\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "phrase-table.gz").write_bytes(b"table")
    values = {"BUILD": "", "CORPUS": "/corpus", "MODEL": "/model", "B": "/table1", "BIN": "/bin"}
    words = [f"{name}={tmp_path}{place}" for name, place in values.items()]
    words += [
        "ORIGIN=mine",
        "SIZE=5",
        "SOURCE=en",
        "TARGET=fr",
        f"{tmp_path}/domain/mine-5/links/en",
    ]
    made, dates = tmp_path / "domain" / "mine-5" / "links" / "en", []
    for edit in (False, False, True, False):
        if edit:
            given = tmp_path / changed
            date, content = given.stat().st_mtime_ns, given.read_bytes()
            given.write_bytes(content[::-1])
            os.utime(given, ns=(date, date))
        makefile = EXPERIMENTS / "domain" / "domain.mk"
        told = subprocess.run(["make", "-f", makefile, *words], capture_output=True, text=True)
        assert told.returncode == 0, told.stderr
        dates.append(made.stat().st_mtime_ns)
    assert dates[0] == dates[1] < dates[2] == dates[3]


def fetched_by(recipe: str, target: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a recipe's `moses-bridge corpus` says, whose settings are in a folder, if it may fetch nothing."""
    monkeypatch.setattr("moses_bridge.corpus.parallel_corpus.DebianArchive", refused)
    values = {
        "LANGUAGES": f"--source-language en --target-language {target}",
        "SOURCE": "en", "TARGET": target, "CONFIG": folder, "@D": folder / "out",
        "DOMAIN_FILES": EXPERIMENTS / "domain", "ORIGIN": "libreoffice",
    }  # fmt: skip
    for variable, value in values.items():
        recipe = recipe.replace(f"$({variable})", f"{value}")
    _, command, _ = re.split(r"moses-bridge (?=corpus)| \$\(call named", recipe)
    told = CliRunner().invoke(moses_bridge, shlex.split(command), prog_name="moses-bridge")
    assert told.exit_code == 1 and not (folder / "out").exists()
    return told.stderr.removeprefix("moses-bridge: error: ").strip()


@pytest.mark.parametrize("paths", ALL.values(), ids=list(ALL))
def test_each_rule_comes_once_and_behind_what_it_needs(paths: list[Path]) -> None:
    rules = plan_rules(read_experiment(paths))
    targets = [rule.target for rule in rules]
    assert len(set(targets)) == len(targets)
    for at, rule in enumerate(rules):
        assert not set(rule.needs) & set(targets[at:])
        # What no rule makes is a setting, another build's or given.
        for need in set(rule.needs) - set(targets):
            assert re.match(
                r"\$\((CONFIG|CORPUS|MODEL|DEV|TEST|INPUTS|LISTS|NETWORKS|TABLES|MAPS)\)", need
            )


@pytest.mark.parametrize("paths", ALL.values(), ids=list(ALL))
def test_make_finds_a_rule_for_all_that_the_page_needs(tmp_path: Path, paths: list[Path]) -> None:
    lines = made(tmp_path, paths, "all")
    compared = [line for line in lines if line.startswith("step compare ")]
    assert compared[0].startswith(
        "step compare --out b --run-commands 'Baseline=b/runs/baseline-1,"
    )
    assert lines[-1].startswith("step report ")


def test_a_network_for_each_run_scores_the_table_of_that_run(tmp_path: Path) -> None:
    rules = rules_of(DOMAIN, "seeds.runs = [4]")
    assert (
        rules["$(B)/runs/pairs-bleu-4/weights.json"].needs[0]
        == "$(B)/tables/pairs-bleu-4/moses.ini"
    )
    assert (
        rules["$(B)/tables/pairs-bleu-4/moses.ini"].needs[0] == "$(NETWORKS)/pairs-bleu-4/trained"
    )
    assert rules["$(B)/pairs-bleu-4/trained"].needs == (
        "$(B)/word_pairs-4/trained",
        "$(LISTS)",
        "$(CONFIG)/expected_bleu_linear.toml",
    )
    (line,) = (line for line in rules["$(B)/word_pairs-4/trained"].recipe if "rescorer" in line)
    assert "--seed 4 --arch word_pairs " in line


def test_each_fold_is_translated_by_a_system_that_has_not_seen_it(tmp_path: Path) -> None:
    """What make would run for a column at home, fold by fold."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "train.groups").touch()
    lines = made(tmp_path, [TINY], "b/home-pairs-2/trained", "folds.n_folds = 3")
    (cut,) = (line for line in lines if "moses-bridge folds" in line)
    assert "--corpus corpus/train " in cut and "--folds 3 " in cut and "train.groups" in cut
    for number in (1, 2, 3):
        fold = f"b/folds/{number}"
        builds, filters, decodes = (
            [line for line in lines if f"moses-bridge {verb} " in line and fold in line]
            for verb in ("build", "filter", "decode")
        )
        assert f"--corpus {fold}/rest " in builds[0] and f"--links {fold}/rest.links" in builds[0]
        assert f"--ini {fold}/model/moses.ini --source {fold}/fold.en" in filters[0]
        assert f"--ini {fold}/filtered/moses.ini --source {fold}/fold.en" in decodes[0]
        assert len(builds) == len(filters) == len(decodes) == 1
    (joined,) = (line for line in lines if "join-folds" in line)
    assert "b/folds/folds b/folds/1/lists.gz b/folds/2/lists.gz b/folds/3/lists.gz" in joined
    (trained,) = (line for line in lines if "expected-bleu" in line)
    assert "expected-bleu b/pairs b/lists/folds.gz --out" in trained and "--groups" in trained


def test_one_fold_is_refused() -> None:
    with pytest.raises(ConfigError, match="folds: n_folds is 1; the smallest value is 2"):
        read_experiment([TINY], ["folds.n_folds = 1"])


def test_networks_of_another_build_are_not_trained_again(tmp_path: Path) -> None:
    other = tmp_path / "other"
    for name in ("encdec", "cptm", "rnn-bleu", "pairs-bleu", "cptm-bleu"):
        for seed in (1, 2, 3):
            (other / f"{name}-{seed}").mkdir(parents=True)
            (other / f"{name}-{seed}" / "trained").touch()
    with_networks = made(tmp_path, DOMAIN, "b/domain/table.json")
    assert any("rescorer train" in line for line in with_networks)
    makefile = tmp_path / "Makefile"
    makefile.write_text("NETWORKS := other\n" + makefile.read_text())
    told = subprocess.run(
        ["make", "-n", "-r", "b/domain/table.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--model other/rnn-bleu-3 " in told.stdout
    assert "rescorer train" not in told.stdout


def test_columns_are_added_one_after_the_other(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[systems.both]\nlabel = "both"\ncolumns = ["rnn", "random"]\nseeds = "noise"\n'
    )
    rules = rules_of([TINY, mine])
    second = rules["$(B)/tables/rnn+random-2/moses.ini"]
    assert second.needs == ("$(B)/tables/rnn/moses.ini",)
    assert "score $(B)/tables/rnn/phrase-table.gz --out" in second.recipe[0]
    assert "--ini $(B)/tables/rnn/moses.ini --ini-out $@" in second.recipe[0]
    assert rules["$(B)/runs/both-2/weights.json"].needs[0] == second.target


def test_a_reranked_system_takes_the_lists_of_its_runs(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[networks]\nrnnsearch2 = { arch = "rnnsearch", data = "parallel text", '
        'settings = "rnnsearch", seed = 2 }\n'
        '[features]\nensemble = { name = "RNNSearch0", networks = ["rnnsearch", "rnnsearch2"] }\n'
        '[systems.cslm-nnjm-ensemble]\nlabel = "ensemble"\nreranks = "cslm-nnjm"\n'
        'on_lists = ["ensemble"]\n'
    )
    rules = rules_of([EXPERIMENTS / "full.toml", mine])
    reranked = rules["$(B)/runs/cslm-nnjm-ensemble-2/weights.json"]
    assert reranked.needs == (
        "$(B)/runs/cslm-nnjm-2/weights.json",
        "$(B)/rnnsearch/trained",
        "$(B)/rnnsearch2/trained",
        "$(CONFIG)/rerank.toml",
    )
    assert (
        "--model $(B)/rnnsearch --model $(B)/rnnsearch2 --feature RNNSearch0" in reranked.recipe[1]
    )
    assert "--seed 2 --arch rnnsearch" in rules["$(B)/rnnsearch2/trained"].recipe[1]
    # A processor without its instructions takes eight times as long with bfloat16.
    assert "--precision fastest" in reranked.recipe[1]


def test_each_network_is_judged_on_dev_lists_of_a_tuned_baseline(tmp_path: Path) -> None:
    lines = made(tmp_path, IMPROVE, "b/worth/nnjm.json", "seeds.runs = [4]")
    assert [line.split(" --source ")[0] for line in lines if "baseline" in line] == [
        "fresh b/runs/baseline-4/weights.json",
        "step tune --ini b/filtered/moses.ini --out b/runs/baseline-4 --seed 4 --init-weights "
        "b/runs/start/weights.json --config config/tune.toml as baseline-4",
        "step bin/moses-bridge decode --ini b/runs/baseline-4/moses.ini --nbest b/worth/dev.nbest.gz",
    ]
    judged = " --given --groups corpus/dev.groups --model Judged0=b/nnjm --format json >b/worth/nnjm.json.new"
    assert lines[-1].endswith(f"{judged} && mv b/worth/nnjm.json.new b/worth/nnjm.json")
    # An interrupted training is not judged.
    assert lines[-2] == "touch b/nnjm/trained"
    assert "$(B)/worth/cslm.json" not in rules_of([TINY])


def test_the_full_scale_reranks_lists_of_tuned_runs(tmp_path: Path) -> None:
    """Networks choose from the lists of runs, and a control without any."""
    lines = made(tmp_path, ALL["full"], "b/reranking/table.json", "seeds.runs = [1]")
    reranked = [line for line in lines if line.startswith("step rerank b/runs/cslm-nnjm-1 ")]
    assert sorted(line.count(" --model ") for line in reranked) == [0, 1, 1, 2]
    (table,) = (line for line in lines if line.startswith("step compare --out b/reranking "))
    assert "'RNNsearch+RNN LM=" in table and "--control reranked" in table


def test_the_default_table_has_a_network_for_bleu_for_each_tuning() -> None:
    """Also in the rows with CSLM and NNJM; the table of known-good columns is no part of the page."""
    experiment = read_experiment([EXPERIMENTS / "small.toml"])
    rules = {rule.target: rule for rule in plan_rules(experiment)}
    labels = [experiment.label(row, "main") for row in experiment.rows("main")]
    assert labels[1:3] == ["+RNN", "+RNN for BLEU"]
    assert labels[-3:-1] == ["+CSLM+NNJM", "+CSLM+NNJM+RNN for BLEU"]
    for row in ("home-rnn", "cslm-nnjm-home-rnn"):
        needs = [rules[f"$(B)/runs/{row}-{seed}/weights.json"].needs[0] for seed in (1, 2, 3)]
        assert needs == [f"$(B)/tables/home-rnn-{seed}/moses.ini" for seed in (1, 2, 3)]
    assert not experiment.tables["controls"].page


def test_a_label_reaches_the_command_as_it_is(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    label = 'it\'s $HOME, 5% `x` "quoted" # not'
    mine.write_text(f"[systems.odd]\nlabel = '''{label}'''\n")
    lines = made(tmp_path, [TINY, mine], "b/table.json", "seeds.runs = [1]")
    (command,) = (line for line in lines if line.startswith("step compare"))
    assert f"{label}=b/runs/odd-1" in shlex.split(command)


def test_only_a_table_with_commands_of_its_runs_may_run_them() -> None:
    rules = rules_of([TINY])
    assert "--run-commands" in rules["$(B)/table.json"].recipe[0]
    assert "--run-commands" not in rules["$(B)/controls/table.json"].recipe[0]


def test_two_things_that_are_one_file_are_an_error(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[starts.baseline-2]\n[systems.x]\nlabel = "x"\nstart = "baseline-2"\n')
    with pytest.raises(
        ConfigError, match=r"two things .* are the file runs/baseline-\*/weights.json"
    ):
        rules_of([TINY, mine])


def test_the_graph_has_one_line_for_all_seeds() -> None:
    lines = plan_graph(read_experiment([TINY])).splitlines()
    graph = dict(re.split(r" +<-  ", line) for line in lines)
    assert graph["runs/nnjm-*/weights.json"] == (
        "filtered/moses.ini, runs/start/weights.json, nnjm/trained, CONFIG/tune.toml"
    )
    assert graph["tables/random-*/moses.ini"] == "filtered/moses.ini"
    assert lines[0].startswith("corpus/train.SOURCE ")
    assert lines[-1].startswith("report.html ")


def test_the_command_writes_the_plan_or_prints_the_graph(tmp_path: Path) -> None:
    out = tmp_path / "plan.mk"
    experiment = read_experiment([TINY], ["seeds.runs = [5]"])
    arguments = ["plan", str(TINY), "--set", "seeds.runs = [5]"]
    written = CliRunner().invoke(main, [*arguments, "--out", str(out)])
    assert (written.exit_code, written.output) == (0, "")
    assert out.read_text() == plan_text(experiment)
    printed = CliRunner().invoke(main, [*arguments, "--dry-run"])
    assert (printed.exit_code, printed.output) == (0, plan_graph(experiment))


@pytest.mark.parametrize("more", [[], ["--dry-run", "--out", "plan.mk"]])
def test_the_command_wants_one_of_a_file_and_a_dry_run(more: list[str]) -> None:
    result = CliRunner().invoke(main, ["plan", str(TINY), *more])
    assert result.exit_code != 0
    assert "give one of --out and --dry-run" in result.output


def test_the_command_names_the_nearest_system(tmp_path: Path) -> None:
    change = 'tables.main.rows = ["baselin"]'
    out = tmp_path / "plan.mk"
    result = CliRunner().invoke(main, ["plan", str(TINY), "--set", change, "--out", str(out)])
    assert result.exit_code == 1
    assert "unknown system 'baselin'; did you mean 'baseline'?" in result.output
    assert not out.exists()

"""The product as tests reach it: every name of its modules that a test takes, so that where a module moves, or is split
or joined, this file alone changes. A file whose names do not fit on one line of import takes it whole, `from tests
import world`. Each name is imported when it is first asked for.
"""
# ruff: noqa: F401, I001

import ast
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING


def hold_what_is_taken() -> None:
    """Import what loaded files name as `world.…` and keep it as it is now, before any test patches the product: a test
    may then call what it patched, and no module is first imported while something else stands in its place."""
    facade = sys.modules[__name__]
    for module in [*sys.modules.values()]:
        if vars(module).get("world") is facade and module.__file__:
            for name in re.findall(r"\bworld\.(\w+)", Path(module.__file__).read_text(encoding="utf-8")):
                if hasattr(facade, name):
                    setattr(facade, name, getattr(facade, name))


if TYPE_CHECKING:
    # fmt: off
    from concord.artifacts import (
        certificate as artifacts_certificate, errors as artifacts_errors,
        parts as artifacts_parts, settings as artifacts_settings
    )
    from concord.artifacts.certificate import (
        CERTIFICATE_FORMAT, SCHEMA_FILE, Certificate, Certified, RelabellingRecord, StudentRecord, library_versions,
        schema
    )
    from concord.artifacts.domains import NEIGHBOURS, Division, Domain, Filter, NewCap
    from concord.artifacts.errors import (
        GONE, BudgetRefused, ConcordError, EnvironmentFailed, NotVerified, WrongInput, in_json, in_lines, in_one_line,
        is_printable
    )
    from concord.artifacts.guarantee import (
        CAVEATS, LABELS_ALONE, RELABELLED, RESTORED, DomainCharge, Guarantee, later_rows_in_words,
        season_in_words
    )
    from concord.artifacts.home import empty as home_empty
    from concord.artifacts.home.atomic import UNFINISHED, locked, sweep, write_whole
    from concord.artifacts.home.empty import copy_empty, keep_as_empty
    from concord.artifacts.home.released import (
        HELD, READY, Released, labels_path, labels_schema, labels_table, publish_together, settle, sha256,
        table_bytes
    )
    from concord.artifacts.home.signing import PAYLOAD_TYPE, SIGNING_SECRET, Envelope, PublicKey, SigningKey, payload_of
    from concord.artifacts.home.vault import KEY_BYTES, SEAL_BYTES, Vault, derive, hashed, keyed_digest
    from concord.artifacts.learners import HypothesesPlan, StudentPlan, TeachersPlan
    from concord.artifacts.ledger import database as ledger_database, excerpt as ledger_excerpt, state as ledger_state
    from concord.artifacts.ledger.database import LedgerRows
    from concord.artifacts.ledger.events import EVENT_KINDS, Entry, Event, LogRecord, Remark, RemarkKind, Remarks
    from concord.artifacts.ledger.excerpt import Excerpt, hiding
    from concord.artifacts.ledger.home_contents import HomeContents, checked_ledger
    from concord.artifacts.ledger.ledger import Ledger, _catch_up
    from concord.artifacts.ledger.reading import Reading
    from concord.artifacts.ledger.state import LedgerState
    from concord.artifacts.measures import (
        LEVEL, AnyPublicTest, CalibrationBin, ClassMeasured, ClassTested, ConfusionMatrix, Estimate, NumberTest,
        NumberTested, PublicTest, TestRecord, Threshold, thresholds_of
    )
    from concord.artifacts.mlflow import (
        describe as mlflow_describe, read as mlflow_read, store as mlflow_store, write as mlflow_write
    )
    from concord.artifacts.mlflow.describe import (
        DIGESTS, MODEL_FILE, NOTE, SERIES, Champion, Recorded, Tracked, content_of, logged_digests, tags,
        takes_alias
    )
    from concord.artifacts.mlflow.read import Records
    from concord.artifacts.mlflow.store import STORE_LOCK, in_one_sentence, keep_empty_store, ready_store
    from concord.artifacts.mlflow.write import Tracking
    from concord.artifacts.parts import EVERY, LEARNING, PARTS, TEST, Counted, Parts
    from concord.artifacts.plan import Plan, load_plan, parse_plan, read_tables
    from concord.artifacts.privacy import (
        FFT_ERROR, ORDERS, RENYI_QUANTUM, UP, Charge, Cost, bounded_range, compose, hockey_stick,
        optimal_composition, randomised_response
    )
    from concord.artifacts.process import VARIABLES, our_settings, variables
    from concord.artifacts.properties import PROPERTIES
    from concord.artifacts.published import (
        ATTESTATION_FILE, ATTESTATION_SCHEMA_FILE, NOBODYS, PREDICATE_TYPE, SYNTHETIC, LedgerHead,
        PrivacyClaim, PublishedStudent as PublishedSet, Statement, Subject, attestation_schema
    )
    from concord.artifacts.records import Counts, MechanismRecord, SessionRecord, promised
    from concord.artifacts.schemas import (
        COMMAS, LABEL, LARGEST_NUMBER, NULL_WORDS, Budget, Column, Empty, Encoding, Hashed, Kind as ColumnKind, OneHot,
        Passed, PublicBatch, PublicRows, Ref, Scaled, Spelling, TextFormat, canonical_json
    )
    from concord.artifacts.sections import MECHANISMS, TALLIES, AboutPlan, DataPlan, PrivateTestPlan, StreamPlan
    from concord.artifacts.sessions import (
        LABELS, STUDENT_TEST, Batch, BatchOutcome, Draw, Opening, Session, Settlement, Terms
    )
    from concord.artifacts.settings import (
        LEDGER, SIGNING_KEY, STORE, Settings, check_answers, sqlite_address, sqlite_file
    )
    from concord.artifacts.sources import TableSource
    from concord.artifacts.stores import PrivatePlace, PublicPlace, Stores
    from concord.artifacts.table_schema import (
        SCALARS, DeclaredCategories, DeclaredColumn, DeclaredRange, DeclaredText, DeclaredTruth, TableSchema,
        read_schema, schema_of
    )
    from concord.artifacts.threads import Abandoned, Threads
    from concord.artifacts.student_warnings import LARGE, UNTESTED, student_warnings, untested, warnings_of
    from concord.tasks import mechanisms as tasks_mechanisms
    from concord.tasks.advice import (
        rehearse_sketch as advice_rehearse_sketch, rehearse_tallies as advice_rehearse_tallies,
        rehearse_votes as advice_rehearse_votes
    )
    from concord.tasks.advice.demo import (
        DEMO_TABLES, PLAN_SCHEMA_FILE, SCHEMA_LINE, SHIPPED, UNFORESEEN, write_demo, write_stays
    )
    from concord.tasks.advice.dictionary import TABLES as TABLES_OF_DICTIONARY
    from concord.tasks.advice.draft import (
        PROPOSED, UNREAD, PlanFacts, answered, classes_of, features_of, usual_delta
    )
    from concord.tasks.advice.init import parse_setting
    from concord.tasks.advice.planned import (
        asks_pairs, cells_that_are_heard, check_columns, decided, later_fields, planned_sizes, planned_sketch,
        planned_tallies, rounds_of, rounds_of_spaces, views_in_words
    )
    from concord.tasks.advice.public_facts import REHEARSED, PublicFacts
    from concord.tasks.advice.rehearse import (
        SIGNALS, ClassRehearsed, Rehearsed, clearest, expect_classes, principal_components, random_logits,
        rehearsed_in_words, separated, span, typical_truth, with_shares
    )
    from concord.tasks.advice.rehearse_sketch import (
        MOST_COLUMNS, SketchAhead, SketchStage, expect_sketch, plausible_cells, rehearsed_columns
    )
    from concord.tasks.advice.rehearse_tallies import (
        DRAWS, MOST_WORK, SumsStage, TalliesAhead, TalliesStage, expect_tallies, rehearse_sums
    )
    from concord.tasks.advice.rehearse_votes import (
        LEAST_TRAINED, MOST_ASKED, MOST_NOT_LINEAR, MOST_SHARD, MOST_TRAINED, USUAL_SHARD,
        VotesAhead, VotesStage, expect_votes, expected_answers
    )
    from concord.tasks.advice.report import EPSILONS, Account, check_cover, costs_of, largest_epsilon
    from concord.tasks.asking import questions as asking_questions
    from concord.tasks.asking.answers import DEEPEST, LARGEST_INTEGER, LONGEST, NO_ANSWER, canonical, frame, from_plain
    from concord.tasks.asking.questions import Question, answer_of, as_bytes, forking_helper, rehearse_question
    from concord.tasks.asks.estimate import EstimateAsk, exact_cutoff, mean_rate, suggested_cutoff, upper_rate
    from concord.tasks.asks.hypothesis import HypothesisAsk
    from concord.tasks.asks.hypothesis_space import (
        CLASSES, CUTS, candidates, cut_points, hypothesis_class, hypothesis_space, public_matrix, relabelling
    )
    from concord.tasks.asks.kinds import (
        asks_shards, delta_of, looks_before, mechanism_of, outcomes_of, remarks_of
    )
    from concord.tasks.asks.questions import QuestionsAsk, QuestionTerms, answers_path, check_code
    from concord.tasks.asks.sketch import SketchAsk
    from concord.tasks.asks.stream import PeriodCounts, SeasonAsk, counted_again, keep_counted, periods_counted
    from concord.tasks.asks.student_test import StudentTestAsk
    from concord.tasks.asks.tallies import TalliesAsk, round_step
    from concord.tasks.asks.votes import VotesAsk
    from concord.tasks.data import (
        cells as data_cells, concord_pictures as data_concord_pictures, concord_student as data_concord_student,
        csv_files as data_csv_files, files as data_files, frames as data_frames, places as data_places,
        sources as data_sources, stored_columns as data_stored_columns, vectors as data_vectors
    )
    from concord.tasks.data.cells import (
        canonical_id, cast_columns, cast_labels, cast_numbers, cast_rows, number, numbers_of,
        steps_between, text
    )
    from concord.tasks.data.codes import (
        MOST_CODES, VECTOR_CELLS, CodedField, CodeMatrix, Codes, CodeSizes, NumberField, WordField, coarse_bins,
        coarser, deepens, interval_cuts, learn_codes
    )
    from concord.tasks.data.concord_pictures import (
        FEATURES, LARGEST as LARGEST_PICTURE, Pictures, gradients, levels_of, moved
    )
    from concord.tasks.data.concord_student import (
        LARGEST, MOST_MARKS, TRUTH, Cells, Chosen, ScoreClassifier, Spelled, bucket, signed_log, word
    )
    from concord.tasks.data.csv_files import csv_names, find_format, read_rows, words_of
    from concord.tasks.data.encode import (
        VOCABULARY, as_declared, grouping, labelled_rows, learn_column, learn_columns, learn_encoding,
        public_features, read_frame, reading_columns, reading_encoding, stage_public,
        systematic_sample, write_frame
    )
    from concord.tasks.data.files import PRIVATE, TableFile, find_files, format_of, format_of_private
    from concord.tasks.data.frames import check_index, frame_table
    from concord.tasks.data.grid import (
        NARROW, STAND_INS, grid_cuts, grid_of, groups_of, label_points,
        outside_of_schema, recoded, stand_ins, values_in, with_tables
    )
    from concord.tasks.data.joined import (
        CLUSTERED, FARTHEST, LARGEST_LEVEL, LEAST_ROWS, JoinedField, clustered, joinable, most_ratio, public_scores,
        unclustered
    )
    from concord.tasks.data.matrix import Matrix, encode, published_encoding, row_digests
    from concord.tasks.data.precheck import Unmatched, check_stored, check_types, unmatched
    from concord.tasks.data.remarks import (
        ALL_DIFFER, DATES, FREE_TEXT, LEADING_ZEROS, MAY_BE_NAMES, MAY_NAME_ROWS, MOSTLY_NUMBERS,
        NUMBERS_DIFFER, ONE_VALUE, TOO_MANY, WITH_COMMAS, check_target, remarks_on
    )
    from concord.tasks.data.sources import keep_frame, rows_of_query, with_rows, with_snapshots
    from concord.tasks.data.stored_columns import columns_by_words, polars_type, read_column, words_as_enum
    from concord.tasks.data.tables import Table as RowTable, open_private, open_public
    from concord.tasks.data.vectors import (
        Layer, VectorField, centres_of, learn_layer, learn_view, nearest, written
    )
    from concord.tasks.door import admit as door_admit, door as door_door, locks as door_locks
    from concord.tasks.door.admit import claim, on_record, opening_of, planned_domain, reserve_session
    from concord.tasks.door.ask import Ask, SingleAsk
    from concord.tasks.door.checkpoint import (
        Checkpoint, PublicSource, read_checkpoint, sums_folder, votes_folder, write_checkpoint
    )
    from concord.tasks.door.door import Drawn, Step as SessionStep, release
    from concord.tasks.door.erase import close, erase, erased_units, forget
    from concord.tasks.door.exact import Exact, OpenedNumbers, opened, read_votes
    from concord.tasks.door.locks import RUN, a_run_in
    from concord.tasks.door.randomness import Randomness, commitment
    from concord.tasks.mechanisms import (
        contributions as mechanisms_contributions, distance as mechanisms_distance,
        noise as mechanisms_noise, private_test as mechanisms_private_test,
        refusal_tables as mechanisms_refusal_tables
    )
    from concord.tasks.mechanisms.calibration import (
        CALIBRATED, VoteTerms, bits_for, calibrate, calibration_of, calibrated_confident, calibrated_estimate,
        calibrated_laplace, calibrated_optimal, calibrated_published,
        calibrated_sparse_vector, calibrated_stable, calibrated_sums, calibrated_test, calibrated_votes,
        least_with_tail, noise_scale, printed_cost, share_for
    )
    from concord.tasks.mechanisms.catalogue import CATALOGUE, recorded, recorded_as
    from concord.tasks.mechanisms.confident import ConfidentGNMax
    from concord.tasks.mechanisms.contributions import (
        LARGEST_WEIGHT, STEPS_A_NAT, TABLE_DIGEST, CodeRows, IntegerModel, RoundQuestion, What, columns,
        expected, odds_table, residuals, row_square, row_sums, tally, unit_mean
    )
    from concord.tasks.mechanisms.distance import (
        REFUSED, WHOLE, Answers, Draws, Floats, Ints, RandomSource, RefusalTable, distance_to_instability,
        margin, per_refusal, plurality, table_probabilities
    )
    from concord.tasks.mechanisms.error_estimate import ErrorEstimate
    from concord.tasks.mechanisms.exponential import ExponentialMechanism, Universal
    from concord.tasks.mechanisms.gaussian import ROUNDED, delta_above, gaussian_delta, gaussians_delta, moved_delta
    from concord.tasks.mechanisms.hypotheses import Box, Hypotheses, HypothesisClass, Stumps
    from concord.tasks.mechanisms.laplace_votes import LaplaceVotes
    from concord.tasks.mechanisms.mechanism import Mechanism, PublicSettings
    from concord.tasks.mechanisms.noise import reporting
    from concord.tasks.mechanisms.noisy_votes import NoisyCounts, NoisyVotes, noises, noisy_labels
    from concord.tasks.mechanisms.private_test import (
        PLACES, PrivateTest, placed
    )
    from concord.tasks.mechanisms.queries import (
        FORMS, LaplaceRelease, OptimalRelease, SingleRelease, release_answers as ask_query, leaders
    )
    from concord.tasks.mechanisms.relabelled import (
        Relabelled, Relabelling, amplified, boost, choose_hypothesis, inner_budget, label_boost
    )
    from concord.tasks.mechanisms.sketch import Sketch
    from concord.tasks.mechanisms.sparse_vector import NoisyThreshold, SparseVector, sum_tail
    from concord.tasks.mechanisms.refusal_tables import FLOOR, LEAST_ORDER, fitted_table, greedy_table
    from concord.tasks.mechanisms.stable import StableVoting
    from concord.tasks.mechanisms.stream import Stream, coefficients
    from concord.tasks.mechanisms.tallies import Round, Tallies
    from concord.tasks.advice.expectation import PROFILE_ROWS, SimulatedNoise, expectation, odds, profile
    from concord.tasks.student import private_figures
    from concord.tasks.student.running_totals import spread, totals
    from concord.tasks.student.private_figures import measured_error, measured_share, quantile, test_figures
    from concord.tasks.student.rounds import FINER, GROUPS, MOST_PAIR_CELLS, most_groups, planned_rounds, sketch_rounds
    from concord.artifacts.facts import Facts
    from concord.tasks.publish import (
        certify as publish_certify, figures as publish_figures,
        report as publish_explain
    )
    from concord.tasks.publish.certify import (
        certificate_of, certify_answers, column_types, excerpt_of, publication_of, running_totals,
        write as write_certificate
    )
    from concord.tasks.publish.describe import caveats, describe, outcomes_in
    from concord.tasks.publish.export import (
        FORMS as EXPORT_FORMS, ExportForm, _needed, columns_of, example_row, export, holds
    )
    from concord.tasks.publish.figures import (
        PLANS, Spending, _svg, budget_figure, charge_of, epsilon_if_ended, epsilon_if_stopped_early, labels_figure,
        spend_figure, spending, what_if_figure
    )
    from concord.tasks.publish.predict import (
        Thresholded, as_named, at_point, csv_part, csv_text, in_spreadsheet, student_of
    )
    from concord.tasks.publish.report import (
        CellPoints, Scorecard, first_page, guarantees_of, most_found, render, shown_scorecard as explained_scorecard,
        small_counts, verdict_of
    )
    from concord.tasks.publish.tables import NORMAL_95, released_tables, tables_files
    from concord.tasks.student import (
        concord_published as student_concord_published, concord_tallied as student_concord_tallied,
        decode as student_decode, directions as student_directions, joint as student_joint,
        prior as student_prior, public_rows as student_public_rows, questions as student_questions,
        sketch as student_sketch, study as student_study, synthetic as student_synthetic
    )
    from concord.tasks.student.concord_published import EMPTY, LOOKED_AT, Published, unread
    from concord.tasks.student.concord_tallied import POINTS, Code, Joined, Pairs, Tallied, TalliedNumber, added
    from concord.tasks.student.decode import (
        Decoded, NoisyRound, decode, estimated_units, guess_of, joined, logits, measured_column as decode_measured,
        merged, next_fields, next_model, odds_scores, scores, unlike_fields
    )
    from concord.tasks.student.directions import Directions
    from concord.tasks.student.evaluate import (
        at_threshold, best_threshold, digest_of_table, evaluate, keep_table_path, measured,
        number_measured
    )
    from concord.tasks.student.intervals import (
        auc, explained, mean_of_shares, root_mean_square, share
    )
    from concord.tasks.student.joint import Linearised, MeasuredRounds, Search, least_sum, likeliest
    from concord.tasks.student.margins import Margins, margins_of
    from concord.tasks.student.model import canonical_file, dump, load, modules_needed, published_student
    from concord.tasks.student.prior import (
        SPREADS, Linear, Prior, correlations, evidence, improved, posterior, prior_of, straightened,
        straighter, whitened
    )
    from concord.tasks.student.public_rows import (
        CrossedRows, ReducedRows, Totals, repaired, sampled_of, sampled_rows as sampled_pairs
    )
    from concord.tasks.student.questions import RoundFile, RoundPlanner, SeasonReader, with_pairs
    from concord.tasks.student.scorecard import has_statement, has_scorecard, scorecard, scorecard_json, scorecard_sql
    from concord.tasks.student.sketch import (
        SketchPlanner, published_cells, rehearse_steps, synthetic_features, synthetic_file
    )
    from concord.tasks.student.study import (
        Refused, Student, even_sample, fit_student as fit_student, fitted, inferred, lessons, linear_student,
        hold_student, named_by, teaching
    )
    from concord.tasks.student.synthetic import (
        FINER_FROM, ROWS, UPDATES, Mixture, NoisyTables, TwoWay, bins_of, fitted_mixture, label_codes,
        synthetic_cells, table_codes
    )
    from concord.tasks.student.trust import trusted_types
    from concord.tasks.units import (
        arrivals as units_arrivals, blocks as units_blocks, counts as units_counts, identifiers as units_identifiers,
        parts as units_parts, relabel as units_relabel, spill as units_spill, split as units_split, sums as units_sums,
        teachers as units_teachers, units as units_units
    )
    from concord.tasks.units.arrivals import (
        NAME, Arriving, Period, check_unchanged, contents_by_place, files_by_place, table_of, take
    )
    from concord.tasks.units.counts import (
        Confusion, NumberErrors, classes_given, count_errors, count_units, numbers_given
    )
    from concord.tasks.units.linear import LACKS, LINEAR, LinearTeachers, weights_of
    from concord.tasks.units.teachers import (
        answer, Teacher, add_votes, aligned_copy, fitted_teacher, fixed_vote, load_teachers, measure, poll,
        teach, votes_schema
    )
    from concord.tasks.units.blocks import (
        BLOCKS, Coding, BlockStep, _in_blocks, _labels, code_rows, gather, known_codes
    )
    from concord.tasks.units.guard import private_stage, silenced
    from concord.tasks.units.identifiers import LONGEST_TEXT, PLAIN, _named, name_of
    from concord.tasks.units.parts import (
        NULL_CELL, columns_asked, division_of, naming_rule, of_part, provenance_of, public_key, row_names
    )
    from concord.tasks.units.relabel import RelabelledRows, relabel, resampled
    from concord.tasks.units.spill import SPILLS, spilling
    from concord.tasks.units.split import ASIDE, SHARD, one_row_a_unit, split, with_public
    from concord.tasks.units.provenance import LENGTH, Provenance, read_made, read_shards
    from concord.tasks.units.sums import count, keep_sums, summed
    from concord.tasks.units.units import (
        NOBODY, UNIT, Erased, PrivateRows, keyed_bits, names_held, private_table, rows_with_units,
        sampled, shards_of, unit_names
    )
    from concord.tasks.verify import (
        certificate as verify_certificate, checks as verify_limited,
        recompute_gaussian as verify_recompute_gaussian, recompute as verify_recompute
    )
    from concord.tasks.verify.certificate import handed_on
    from concord.tasks.verify.checks import FILE, NEEDED, ONE_THREAD, VERIFY_FOLDER, Check, limited
    from concord.tasks.verify.forms import ReleaseForm, RoundForm
    from concord.tasks.verify.kinds import Unknown, VotesSettings
    from concord.tasks.verify.published import (
        excerpt_as_certified, guarantee_as_proved, proved, verify_published
    )
    from concord.tasks.verify.records import LARGEST as LARGEST_FOLDER, PublishedSession
    from concord.tasks.verify.recompute import (
        KINDS, PrivateTestSettings, StreamSettings, charge_of_refusal, read_settings, releases
    )
    from concord.tasks.verify.recompute_discrete import PureProof
    from concord.tasks.verify.recompute_gaussian import TalliesSettings, by_ones, moved_norm
    from concord.tasks.verify.released import LabelTable, check_tested, released_as_certified
    from concord.tasks.verify.replay import HIDDEN, ledger_faults
    from concord.tasks.verify.reproduce import _check_student, _groups_follow, public_test, student_as_released
    from concord.tasks.verify.sums import check_round, check_season
    from concord.tasks.verify.verify import IN_MLFLOW, CheckedSession, verify, verify_kept
    from concord.flows import (
        admit as flows_admit, api as flows_api, classifier as flows_classifier, cluster as flows_cluster,
        console as flows_console, home as flows_home, learn as flows_learn, refresh as flows_refresh,
        run as flows_run, private_stages as flows_private_stages, public_stages as flows_public_stages,
        server as flows_server, tally as flows_tally, vote as flows_vote
    )
    from concord.flows.admit import is_worth_asking, precheck_tables, rounded, shares_in_words
    from concord.flows.api import ask, load_student, run
    from concord.flows.ask import ask as ask_shards, estimate
    from concord.flows.cache import PrivateInput, SealedResults, digested, key_of, only
    from concord.flows.classifier import CONTRARY, CONTRARY_OF_NUMBERS, ConcordClassifier, ConcordRegressor
    from concord.flows.cli import main
    from concord.flows.cli.app import HOME, PANELS, speak_plainly
    from concord.flows.cli.commands import app, command
    from concord.flows.cli.show import show, show_budget, show_erasure
    from concord.flows.cluster import SERVERS_OWN, at_work, closed_cluster, task_runner
    from concord.flows.console import err, out
    from concord.flows.learn import (
        extend, extend as start_extension, latest, learn, learn as start, study_again
    )
    from concord.flows.home import FORMAT, Memo, check_format, prepare, published_by, reopen, tidy
    from concord.flows.operation import failed_state, operation
    from concord.flows.private_stages import UNITS, StudentFile
    from concord.flows.outcome import (
        STAGES, RowsNotPaid, StageName, Summary, in_words as outcome_in_words, measures_of, outcome_in_markdown,
        spent_in_words, stage_named
    )
    from concord.flows.page import Page
    from concord.flows.refresh import refresh
    from concord.flows.results import Run, budget_of, erased
    from concord.flows.run import Admitted, PrivateFiles, RunContext, running
    from concord.flows.server import ADDRESS_VARIABLE, DATABASE, UNRECORDED, Hosted, Server, engine, serving
    from concord.flows.stage import (
        Begun, Call, Described, Disclosure, Stages, Steps, mapped, on_workers, stage
    )

    # fmt: on
else:
    BLOCK = next(
        node for node in ast.parse(Path(__file__).read_text(encoding="utf-8")).body if isinstance(node, ast.If)
    )
    _WHERE = {alias.asname or alias.name: (node.module, alias.name) for node in BLOCK.body for alias in node.names}

    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise AttributeError(name)
        module, attribute = _WHERE[name]
        found = import_module(module)
        return getattr(found, attribute) if hasattr(found, attribute) else import_module(f"{module}.{attribute}")

"""A published student as ONNX, if skl2onnx can convert its parts, with converters for our own parts.

The graph begins with clean cells, one input per column: numbers, truth values (0 and 1) and dates (days since 1970) as
double, NaN if missing; words as string, unknown ones counting as missing; lists as float, zeros if missing.

Assumes      the student is one of `tasks.student.model`
Guarantees   the same arithmetic in the same order, up to the rounding of the runtime's own logarithm and products
Not covered  how raw cells become clean ones (`concord_student.Cells`); students of gradients
             (`concord_pictures.Pictures`), which have no graph. Checked by
             tests/tasks/publish/test_export.py and, of tallies, tests/tasks/student/test_linear.py
"""

import re
from typing import Any

import numpy as np
from scipy.special import logit
from skl2onnx import convert_sklearn, update_registered_converter
from skl2onnx._parse import _parse_sklearn
from skl2onnx.algebra.onnx_ops import (
    OnnxAbs,
    OnnxAdd,
    OnnxArgMax,
    OnnxCast,
    OnnxConcat,
    OnnxGather,
    OnnxGreaterOrEqual,
    OnnxIdentity,
    OnnxIsNaN,
    OnnxLabelEncoder,
    OnnxLog,
    OnnxMax,
    OnnxMin,
    OnnxMul,
    OnnxReduceSum,
    OnnxSigmoid,
    OnnxSign,
    OnnxSoftmax,
    OnnxSub,
    OnnxWhere,
)
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
    guess_proto_type,
)
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from concord.tasks.student.concord_student import Cells, ScoreClassifier, signed_log
from concord.tasks.student.concord_tallied import LEAST, Code, Pairs, Tallied, TalliedNumber

OPSET = {"": 21, "ai.onnx.ml": 4}
UNKNOWN = re.compile(r"shape calculator for type '<class '([\w.]+)'>'")
WHOLE, DOUBLE = (guess_proto_type(kind()) for kind in (Int64TensorType, DoubleTensorType))


def to_onnx(student: Pipeline) -> bytes:
    """The file of a student's graph, with outputs `label` and, if it has them, `probabilities`; or the number alone.

    Raises NotImplementedError if a part cannot be converted.
    """
    for part, convert in (
        (Cells, _cells),
        (FunctionTransformer, _function),
        (MissingIndicator, _missing),
        (SimpleImputer, _filled),
        (ScoreClassifier, _best),
        (Code, _code),
        (Pairs, _paired),
        (Tallied, _tallied),
        (TalliedNumber, _number),
    ):
        update_registered_converter(part, f"Concord{part.__name__}", _joined, convert, overwrite=True)
    gives_odds = hasattr(student[-1], "predict_proba") and not isinstance(student[-1], ScoreClassifier | Tallied)
    options = {id(student[-1]): {"zipmap": False}} if gives_odds else None
    try:
        own = {"options": options, "target_opset": OPSET, "custom_parsers": PARSERS}
        graph = convert_sklearn(Pipeline(student.steps), "student", inputs(student), **own)
    except (RuntimeError, NotImplementedError, NameError, ValueError, TypeError) as wrong:
        unknown = UNKNOWN.search(str(wrong))
        why = f"it does not know {unknown[1]}" if unknown else str(wrong).splitlines()[0][:200]
        raise NotImplementedError(f"skl2onnx cannot convert {type(student[-1]).__name__}: {why}") from None
    return bytes(graph.SerializeToString())


def inputs(student: Pipeline) -> list[tuple[str, Any]]:
    """The graph's inputs in order: the name of a column, and the type of its clean cells."""
    parts = [(part, names) for _, part, names in student["encode"].transformers_ if isinstance(part, Pipeline)]
    kinds = {name: part[0] for part, names in parts for name in names}
    return [(name, _type(kinds[name])) for name in student["encode"].feature_names_in_ if name in kinds]


def _type(cells: Cells) -> Any:
    if cells.kind in ("uint8", "float32"):
        return FloatTensorType([None, cells.size])
    return (StringTensorType if cells.kind == "categorical" else DoubleTensorType)([None, 1])


def _columns(scope: Any, model: ColumnTransformer, inputs: Any, custom_parsers: Any = None) -> Any:
    """The outputs of all parts on their columns, concatenated. skl2onnx's parser takes every column to have width 1."""
    named = {given.raw_name: given for given in inputs}
    parts = [(part, names) for _, part, names in model.transformers_ if isinstance(part, Pipeline)]
    whole = scope.declare_local_operator("SklearnConcat")
    for part, names in parts:
        whole.inputs += _parse_sklearn(scope, part, [named[name] for name in names], custom_parsers)
    whole.outputs.append(scope.declare_local_variable("encoded", DoubleTensorType([None, None])))
    return whole.outputs


def _typed(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:  # noqa: ARG001
    """A part of ours, whose output has the type of its inputs, except the one that converts doubles to floats."""
    part = scope.declare_local_operator(f"Concord{type(model).__name__}", model)
    part.inputs = inputs
    single = isinstance(model, FunctionTransformer) and model.func is np.require
    kind = FloatTensorType if single else type(inputs[0].type)
    part.outputs.append(scope.declare_local_variable("clean", kind([None, None])))
    return part.outputs


def _scored(scope: Any, model: ScoreClassifier, inputs: Any, custom_parsers: Any = None) -> Any:
    """The regressor's scores, and the operator that turns them into a class."""
    part = scope.declare_local_operator("ConcordScoreClassifier", model)
    part.inputs = _parse_sklearn(scope, model.regressor_, inputs, custom_parsers)
    part.outputs.append(scope.declare_local_variable("label", StringTensorType([None])))
    return part.outputs


def _coded(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:  # noqa: ARG001
    """Codes, integers stored as doubles, because concatenated parts must have one type."""
    part = scope.declare_local_operator(f"Concord{type(model).__name__}", model)
    part.inputs = inputs
    part.outputs.append(scope.declare_local_variable("codes", DoubleTensorType([None, None])))
    return part.outputs


def _classified(scope: Any, model: Tallied, inputs: Any, custom_parsers: Any = None) -> Any:  # noqa: ARG001
    part = scope.declare_local_operator("ConcordTallied", model)
    part.inputs = inputs
    part.outputs.append(scope.declare_local_variable("label", StringTensorType([None])))
    part.outputs.append(scope.declare_local_variable("probabilities", DoubleTensorType([None, len(model.classes)])))
    return part.outputs


def _numbered(scope: Any, model: TalliedNumber, inputs: Any, custom_parsers: Any = None) -> Any:  # noqa: ARG001
    part = scope.declare_local_operator("ConcordTalliedNumber", model)
    part.inputs = inputs
    part.outputs.append(scope.declare_local_variable("number", DoubleTensorType([None, 1])))
    return part.outputs


PARSERS = {
    ColumnTransformer: _columns,
    ScoreClassifier: _scored,
    Tallied: _classified,
    TalliedNumber: _numbered,
    **dict.fromkeys((Code, Pairs), _coded),
    **dict.fromkeys((Cells, FunctionTransformer, MissingIndicator, SimpleImputer), _typed),
}


def _joined(operator: Any) -> None:
    """Set the shape of the concatenated inputs; that of classes is known already."""
    if isinstance(operator.raw_operator, ScoreClassifier | Tallied | TalliedNumber):
        return
    width = sum(given.type.shape[1] for given in operator.inputs)
    operator.outputs[0].type = type(operator.outputs[0].type)([None, width])


def _cells(scope: Any, operator: Any, container: Any) -> None:
    _write(OnnxIdentity(_whole(operator), **_end(operator)), scope, container)


def _missing(scope: Any, operator: Any, container: Any) -> None:
    absent = OnnxIsNaN(_whole(operator), op_version=OPSET[""])
    _write(OnnxCast(absent, to=guess_proto_type(operator.outputs[0].type), **_end(operator)), scope, container)


def _filled(scope: Any, operator: Any, container: Any) -> None:
    X, fill = _whole(operator), operator.raw_operator.statistics_[None, :]
    _write(OnnxWhere(OnnxIsNaN(X, op_version=OPSET[""]), fill, X, **_end(operator)), scope, container)


def _function(scope: Any, operator: Any, container: Any) -> None:
    function, X = operator.raw_operator, _whole(operator)
    version = {"op_version": OPSET[""]}
    if function.func is signed_log:
        log = OnnxLog(OnnxAdd(OnnxAbs(X, **version), np.array([1.0]), **version), **version)
        result = OnnxMul(OnnxSign(X, **version), log, **_end(operator))
    elif function.func is np.clip:
        raised = OnnxMax(X, function.kw_args["a_min"], **version)
        result = OnnxMin(raised, function.kw_args["a_max"], **_end(operator))
    else:
        result = OnnxCast(X, to=guess_proto_type(FloatTensorType()), **_end(operator))
    _write(result, scope, container)


def _best(scope: Any, operator: Any, container: Any) -> None:
    version, names = {"op_version": OPSET[""]}, np.array(operator.raw_operator.classes, dtype=np.str_)
    best = OnnxArgMax(operator.inputs[0], axis=1, keepdims=0, **version)
    _write(OnnxGather(names, best, **_end(operator)), scope, container)


def _code(scope: Any, operator: Any, container: Any) -> None:
    """The code of a number, the count of cuts at or below it; or of a word, its rank among the known ones."""
    model, X, version = operator.raw_operator, _whole(operator), {"op_version": OPSET[""]}
    if model.cuts is None:
        known = dict.fromkeys(model.others, len(model.words)) | {word: at for at, word in enumerate(model.words)}
        if not known:
            raise NotImplementedError("a column without a word that is known")
        ranks = {"keys_strings": list(known), "values_int64s": list(known.values())}
        place = OnnxLabelEncoder(X, default_int64=len(model.words) + 1, **ranks, op_version=2)
    else:
        cuts = np.array([-np.inf, *model.cuts])[None, :]  # one more that every number passes: an axis must not be empty
        passed = OnnxCast(OnnxGreaterOrEqual(X, cuts, **version), to=WHOLE, **version)
        above = OnnxReduceSum(passed, np.array([1]), keepdims=1, **version)
        place = OnnxWhere(OnnxIsNaN(X, **version), np.array([[len(model.cuts) + 2]]), above, **version)
        place = OnnxSub(place, np.array([[1]]), **version)
    codes = OnnxAdd(place, np.array([[model.start]]), **version)
    _write(OnnxCast(codes, to=DOUBLE, **_end(operator)), scope, container)


def _paired(scope: Any, operator: Any, container: Any) -> None:
    """The codes of single columns, and of pairs of them."""
    model, X, version = operator.raw_operator, _whole(operator), {"op_version": OPSET[""]}
    codes, found = OnnxCast(X, to=WHOLE, **version), [X]
    for both, added in zip(model.both, model.added, strict=True):
        own = (OnnxGather(codes, np.array([at]), axis=1, **version) for at in both.tolist())
        left, right = (OnnxGather(part, code, axis=0, **version) for part, code in zip(added, own, strict=True))
        found.append(OnnxCast(OnnxAdd(left, right, **version), to=DOUBLE, **version))
    _write(OnnxConcat(*found, axis=1, **_end(operator)), scope, container)


def _tallied(scope: Any, operator: Any, container: Any) -> None:
    """Class names and probabilities, at the operating point of the student."""
    model, version = operator.raw_operator, {"op_version": OPSET[""]}
    names, logits = np.array(model.classes, dtype=np.str_), _logits(operator)

    def by_class(logits: Any) -> Any:
        none = OnnxSub(logits, logits, **version)
        return OnnxConcat(none, logits, axis=1, **version) if len(model.intercept) == 1 else logits

    found = OnnxSoftmax(by_class(logits), axis=1, **version)
    above = found
    if model.point != "default":
        above = by_class(OnnxSub(logits, logit(np.clip(model.prior, LEAST, 1 - LEAST))[None, :], **version))
    best = OnnxArgMax(above, axis=1, keepdims=0, **version)
    _write(OnnxGather(names, best, op_version=OPSET[""], output_names=operator.outputs[:1]), scope, container)
    _write(OnnxIdentity(found, op_version=OPSET[""], output_names=operator.outputs[1:]), scope, container)


def _number(scope: Any, operator: Any, container: Any) -> None:
    """A number between its bounds (rows, 1)."""
    model, version = operator.raw_operator, {"op_version": OPSET[""]}
    low, high = (np.array([[end]], dtype=np.float64) for end in (model.low, model.high))
    place = OnnxSigmoid(_logits(operator), **version)
    below = OnnxMul(OnnxSub(np.array([[1.0]]), place, **version), low, **version)
    _write(OnnxAdd(below, OnnxMul(place, high, **version), **_end(operator)), scope, container)


def _logits(operator: Any) -> Any:
    """The weights of each row's codes, added to the intercept."""
    model, version = operator.raw_operator, {"op_version": OPSET[""]}
    codes = OnnxCast(_whole(operator), to=WHOLE, **version)
    added = OnnxReduceSum(OnnxGather(model.weights, codes, axis=0, **version), np.array([1]), keepdims=0, **version)
    return OnnxAdd(added, model.intercept[None, :], **version)


def _whole(operator: Any) -> Any:
    version = {"op_version": OPSET[""]}
    return operator.inputs[0] if len(operator.inputs) == 1 else OnnxConcat(*operator.inputs, axis=1, **version)


def _end(operator: Any) -> dict[str, Any]:
    return {"op_version": OPSET[""], "output_names": operator.outputs[:1]}


def _write(node: Any, scope: Any, container: Any) -> None:
    node.add_to(scope, container)

"""BERT."""

from collections.abc import Mapping
from typing import Any

from vesalius.checkpoints.huggingface import dialect
from vesalius.checkpoints.layout import Shape
from vesalius.checkpoints.tables import Row, both
from vesalius.families.bert import BertConfig

CLASSES: dict[str, dict[str, Any]] = {
    "BertModel": {"pooler": True},
    "BertForPreTraining": {"pooler": True, "mlm_head": True, "nsp_head": True},
    "BertForMaskedLM": {"mlm_head": True},
    "BertForNextSentencePrediction": {"pooler": True, "nsp_head": True},
    "BertForSequenceClassification": {"pooler": True, "labelled": "sequence"},
    "BertForTokenClassification": {"labelled": "tokens"},
    "BertForQuestionAnswering": {"labelled": "span"},
}
HEADS = ("pooler", "mlm_head", "nsp_head")


def rows(config: BertConfig) -> list[Row]:
    head = "qa_outputs" if config.labelled == "span" else "classifier"
    return [
        Row("embedding.weight", "embeddings.word_embeddings.weight"),
        Row("positions.weight", "embeddings.position_embeddings.weight"),
        Row("segments.weight", "embeddings.token_type_embeddings.weight"),
        *both("norm", "embeddings.LayerNorm"),
        *dialect.encoder_blocks("self"),
        *both("blocks.{l}.attention_norm", "encoder.layer.{l}.attention.output.LayerNorm"),
        *both("blocks.{l}.feedforward_norm", "encoder.layer.{l}.output.LayerNorm"),
        *both("pooler", "pooler.dense"),
        *both("mlm_head.dense", "cls.predictions.transform.dense"),
        *both("mlm_head.norm", "cls.predictions.transform.LayerNorm"),
        Row("mlm_head.bias", "cls.predictions.bias"),
        *both("nsp_head", "cls.seq_relationship"),
        *both("label_head", head),
    ]


def heads(theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """The heads that the class promises, and the heads that the file holds."""
    # A BertModel may have been made without its pooler.
    promised = dialect.promised_by(theirs, {**CLASSES, "BertModel": {}})
    held = {name.rpartition(".")[0] for name in shapes}
    pooler = promised.get("pooler", False) or "pooler.dense" in held
    guess = "span" if "qa_outputs" in held else "sequence" if pooler else "tokens"
    return {
        "pooler": pooler,
        "mlm_head": promised.get("mlm_head", False) or "cls.predictions.transform.dense" in held,
        "nsp_head": promised.get("nsp_head", False) or "cls.seq_relationship" in held,
        "labels": dialect.labels_of(theirs, shapes, promised, "qa_outputs", "classifier"),
        "labelled": promised.get("labelled", guess),
    }


def class_of(config: BertConfig) -> str:
    """The class with the most of its parts; further ones stand in the file all the same."""
    ours = {name for name in HEADS if getattr(config, name)}
    labelled = config.labelled if config.labels else None
    fitting = {
        name: theirs
        for name, has in CLASSES.items()
        if has.get("labelled") == labelled
        if (theirs := {head for head in HEADS if has.get(head)}) <= ours
    }
    if not fitting:
        return "BertModel"  # made with add_pooling_layer=False
    # Words count for more than the pooler, which only the next sentence is told from.
    return max(fitting, key=lambda name: (len(fitting[name]), "mlm_head" in fitting[name]))


def outputs(config: BertConfig) -> dict[str, str]:
    logits = "z" if config.labels else "Z" if config.mlm_head else "z_C"
    both = {"prediction_logits": "Z", "seq_relationship_logits": "z_C"}
    pooled = {"pooler_output": "h_C"} if config.pooler else {}
    return {**pooled, "logits": logits, **both}


BERT = dialect.Dialect(
    model_type="bert",
    config=BertConfig,
    settings={
        **dialect.ENCODER,
        "vocabulary": "vocab_size",
        "context": "max_position_embeddings",
        "segments": "type_vocab_size",
    },
    fixed={
        "is_decoder": False,
        "add_cross_attention": False,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    },
    dropouts=("attention_probs_dropout_prob",),
    prefix="bert.",
    marks=("embeddings.word_embeddings.weight", "embeddings.token_type_embeddings.weight"),
    classes=CLASSES,
    bare="BertModel",
    rows=rows,
    tied={
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    ignored=r"embeddings\.position_ids",
    advice={
        r"cls\.seq_relationship\..*": "the NSP head; where the file has none, say "
        '"architectures": ["BertForMaskedLM"] in config.json',
    },
    heads=heads,
    class_of=class_of,
    sayable=lambda config: {
        "pooling = mean": not config.labels
        or config.labelled != "sequence"
        or config.pooling == "first"
    },
    outputs=outputs,
)

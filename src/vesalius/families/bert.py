"""BERT: the backbone, its MLM and NSP heads, and a head of labels."""

from dataclasses import dataclass
from typing import Any

from vesalius.errors import ImpossibleSetting
from vesalius.families import blocks
from vesalius.families.blocks import BlocksConfig
from vesalius.families.config import again, setting
from vesalius.families.costs import Component, Memory, Operation, embedding, mean_operation
from vesalius.families.family import INPUTS, Count, Family, Lazy, Size
from vesalius.families.steps import EMBEDDED, PLACED, Step, after, before, block_steps


@dataclass(frozen=True, kw_only=True)
class BertConfig(BlocksConfig):
    """BERT (6.1): the backbone, and the heads that are wanted."""

    vocabulary: int = setting(30522, "|V|", "number of words in the vocabulary")
    context: int = setting(512, "n", "longest sequence")
    segments: int = setting(2, "s", "number of segments")
    epsilon: float = again(BlocksConfig, "epsilon", 1e-12)
    pooler: bool = setting(True, "Πᶜ", "whether the backbone has its pooler")
    mlm_head: bool = setting(False, "Πᴹ Ξₘ bᴱ", "whether there is a masked-language-model head")
    nsp_head: bool = setting(False, "Πᴺ", "whether there is a next-sentence head")
    labels: int = setting(0, "|Y|", "number of labels of a fine-tuned head; 0 for none", least=0)
    labelled: str = setting(
        "sequence", "Πʸ", "what gets labels", choices=("sequence", "tokens", "span")
    )
    pooling: str = setting(
        "first", "h̄", "whose state labels of a sequence read", choices=("first", "mean")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nsp_head and not self.pooler:
            raise ImpossibleSetting("nsp_head reads what the pooler gives; set pooler to true")
        first = self.labelled == "sequence" and self.pooling == "first"
        if self.labels and first and not self.pooler:
            raise ImpossibleSetting(
                "a label of the sequence needs the pooler; set pooler to true, or pooling to mean"
            )
        if self.labels and self.labelled == "span" and self.labels != 2:
            raise ImpossibleSetting(f"a span has 2 labels, its start and end, got {self.labels}")

    def symbols(self) -> dict[str, Any]:
        return {
            **super().symbols(),
            "V": self.vocabulary,
            "n": self.context,
            "n_max": self.context,
            "segments": self.segments,
            "pooler": self.pooler,
            "mlm_head": self.mlm_head,
            "nsp_head": self.nsp_head,
            "two": 2,
            "labels": self.labels,
            "labelled": self.labelled,
            "pooling": self.pooling,
            "Y": self.labels,
        }


def components(config: BertConfig) -> tuple[Component, ...]:
    backbone = (
        embedding(),
        Component("Λᵖ", "positional encoding", "d_e n"),
        Component("Λˢ", "segment encoding", "segments d_e"),
        blocks.norm("Ξₑ", config.block),
        blocks.block_components(config.block),
        *((Component("Πᶜ", "pooler", "d_e (d_e + 1)"),) if config.pooler else ()),
    )
    mlm = (
        Component("Πᴹ", "dense layer", "d_e (d_e + 1)"),
        blocks.norm("Ξₘ", config.block),
        Component("bᴱ", "embedding bias", "|V|"),
    )
    heads = (
        *((Component("", "MLM head", parts=mlm),) if config.mlm_head else ()),
        *((Component("Πᴺ", "NSP head", "2 (d_e + 1)"),) if config.nsp_head else ()),
        *((Component("Πʸ", "label head", "|Y| (d_e + 1)"),) if config.labels else ()),
    )
    return (Component("", "backbone", parts=backbone), *heads) if heads else backbone


def operations(config: BertConfig) -> list[Operation]:
    added = f"2 n d_e + {blocks.normalising(config.block)}"
    rows = [Operation("51", "positions and segments, normalised", pointwise=added)]
    rows += blocks.block_operations(config.block)
    if config.pooler:
        rows.append(Operation("57", "pooler", "2 d_e²", "2 d_e"))
    if config.mlm_head:
        rows += [
            Operation("53", "dense layer of the MLM head", "2 n d_e²", "n (a + 1) d_e"),
            Operation("54", "its normalisation", pointwise=blocks.normalising(config.block)),
            Operation("55", "logits", "2 n d_e |V|", "n |V|"),
            Operation("56", "softmax", pointwise="5 n |V|"),
        ]
    if config.nsp_head:
        rows.append(Operation("58", "NSP head", "4 d_e", "12"))
    if config.labels and config.labelled == "sequence" and config.pooling == "mean":
        rows.append(mean_operation("d_e"))
    if config.labels:
        many = "n " if config.labelled != "sequence" else ""
        rows.append(Operation("6.1", "label head", f"2 {many}d_e |Y|", f"6 {many}|Y|"))
    return rows


def activation_memory(config: BertConfig) -> list[Memory]:
    rows = [Memory("embeddings and their normalisation", "n (2 d_e + 2)")]
    rows.append(blocks.block_memory(config.block))
    if config.pooler:
        rows.append(Memory("pooler", "d_e"))
    if config.mlm_head:
        rows.append(
            Memory("MLM head", f"n ({blocks.neurons(config.block, 'd_e', more=1)} + 2 + |V|)")
        )
    if config.nsp_head:
        rows.append(Memory("NSP head", "2"))
    if config.labels:
        rows.append(Memory("labels", "n |Y|" if config.labelled != "sequence" else "|Y|"))
    return rows


def _size(name: str, layers: int, embedding: int, vocabulary: int = 30522) -> Size:
    settings = {
        "layers": layers,
        "embedding": embedding,
        "heads": embedding // 64,
        "vocabulary": vocabulary,
    }
    return Size("Devlin et al. 2019", settings, (f"google-bert/{name}",))


def _small(name: str, layers: int, embedding: int) -> Size:
    published = f"bert_uncased_L-{layers}_H-{embedding}_A-{embedding // 64}"
    aliases = (f"prajjwal1/{name}", published, f"google/{published}")
    return Size("Turc et al. 2019", _size(name, layers, embedding).settings, aliases)


def steps(config: BertConfig) -> tuple[Step, ...]:
    head = (before("H_M", "mlm_head.norm"), after("H_O", "mlm_head.norm"))
    mlm = head if config.mlm_head else ()
    return (*EMBEDDED, *PLACED, *block_steps(config.block), *mlm)


def other_counts(config: BertConfig, count: Count) -> dict[str, int]:
    backbone = config.change(labels=0, pooler=True, mlm_head=False, nsp_head=False)
    others = {
        "backbone" if config.pooler else "backbone with its pooler": backbone,
        "with MLM head (60)": backbone.change(mlm_head=True),
        "with MLM and NSP heads": backbone.change(mlm_head=True, nsp_head=True),
        "with MLM head, no pooler (Hugging Face's BertForMaskedLM)": backbone.change(
            mlm_head=True, pooler=False
        ),
    }
    counts = {what: count(other) for what, other in others.items()}
    return {what: number for what, number in counts.items() if number != count(config)}


def heads(config: BertConfig) -> tuple[str, ...]:
    labels = {
        "sequence": f"a head for {config.labels} labels of a text",
        "tokens": f"a head for {config.labels} labels of every token",
        "span": "a head for the start and end of an answer",
    }
    there = {
        "a pooler": config.pooler,
        "an MLM head": config.mlm_head,
        "an NSP head": config.nsp_head,
        labels[config.labelled]: config.labels,
    }
    return tuple(name for name, is_there in there.items() if is_there)


FAMILY = Family(
    name="bert",
    title="BERT",
    sections="6.1",
    config=BertConfig,
    figures={"model": "24", "tokens": "24"},
    sizes={
        "bert-tiny": _small("bert-tiny", 2, 128),
        "bert-mini": _small("bert-mini", 4, 256),
        "bert-small": _small("bert-small", 4, 512),
        "bert-medium": _small("bert-medium", 8, 512),
        "bert-base-uncased": _size("bert-base-uncased", 12, 768),
        "bert-base-cased": _size("bert-base-cased", 12, 768, vocabulary=28996),
        "bert-large-uncased": _size("bert-large-uncased", 24, 1024),
        "bert-large-cased": _size("bert-large-cased", 24, 1024, vocabulary=28996),
    },
    components=components,
    operations=operations,
    activation_memory=activation_memory,
    other_counts=other_counts,
    parameters=Lazy("vesalius.equations:Bert"),
    run=Lazy("vesalius.equations.runs:bert"),
    network=Lazy("vesalius.models:BertNetwork"),
    outputs=lambda config: {"h_C": "pooled", "Z": "mlm", "z_C": "nsp", "z": "labels"},
    steps=steps,
    below=lambda config: (*INPUTS, "norm"),
    engine=Lazy("vesalius.generation.engines.transformer:TransformerEngine"),
    session=Lazy("vesalius.generation.engines.reference:TransformerSession"),
    read_out=Lazy("vesalius.equations.runs:read_masked_words"),
    label_logits=Lazy("vesalius.generation.forward:text_labels"),
    classes=lambda config: config.labels if config.labelled == "sequence" else 0,
    heads=heads,
    layout=Lazy("vesalius.checkpoints.layout:BERT"),
    huggingface=(Lazy("vesalius.checkpoints.huggingface.bert:BERT"),),
    libraries={"Keras": Lazy("vesalius.checkpoints.libraries:KERAS_BERT")},
    verbs=(
        *("fill", "next-sentence", "classify", "tag", "answer"),
        *("embed", "similar", "evaluate"),
    ),
    objectives=(
        *("mlm", "nsp", "mlm+nsp", "text-classes", "text-labels", "text-values"),
        *("tags", "answers"),
    ),
)

#!/usr/bin/env python3
"""Small vocabularies of SentencePiece, and what its makers' library and the library that reads
tokenizer.json files make of some texts.

    record.py OUT.json                       (sentencepiece 0.2.3, tokenizers 0.23.3)
    record.py OUT.json MODEL.gguf            (gguf 0.19 too)

The first form trains on the text below. The second takes the vocabulary of a published model, of
which only its name is kept: it is for a test that runs where the model is installed.
"""
import io
import json
import random
import sys

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

CORPUS = """
The node reads a request, answers it and writes down what it cost. A request that waits is told so.
Every stream ends. Every token is counted once. When the disk is full, the node says so and goes on.
A page that nobody needs is the first one to be used again; a page that somebody needs is not.
Tokens are numbers. Numbers are 0, 1, 2, 3, 10, 42, 100, 1000 and 12345. So are -1 and 3.14.
Der Knoten liest eine Anfrage, beantwortet sie und schreibt auf, was sie gekostet hat. Schöne Grüße!
Le nœud lit une requête, y répond et écrit ce qu'elle a coûté. Ça, c'est très bien, n'est-ce pas ?
El nodo lee una petición, la contesta y anota lo que costó. ¿Cuántos años tiene el señor Muñoz?
Узел читает запрос, отвечает на него и записывает, сколько это стоило. Что дальше? Ещё один запрос.
ノードは要求を読み、答え、その費用を書きます。 次の要求が来ます。
节点读取请求，回答请求，并记下费用。 下一个请求来了。
if x > 0 { return x } else { return -x } // the absolute value of x
for i := range 10 { fmt.Println(i, "is", i*i) } <div> <p>text</p> </div>
{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}} and {"ok": true, "list": [1, 2, 3]}
"""
DEFINED = ["\n"] + ["\n" * n for n in range(2, 6)] + ["\u2581" * n for n in range(2, 8)] + ["<table>", "</table>", "<b>", "[image]"]

TEXTS = [
    "", " ", "a", "  ", "   a", "a  b", " The node", "The node reads a request.", "The  node   reads\n\na    request.\n",
    "\n", "\n\n\n\n\n\n\n", " \n \n", "x > </p> y", "x >\u2581</p>", "\u2581", "a\u2581b", "\u2581\u2581\u2581", "naïve café", "e\u0301",
    "Ünïcödé 𝔘𝔫𝔦", "🙂🙃", "👩\u200d👩\u200d👧", "日本語のテキスト", "次の要求が来ます。", "请求 请求", "Ещё один запрос?", "\u00a0", "\t\ttab", "a\r\nb",
    "<table><b>x</b></table>", "<tab<table>le>", "[image][imag", "<0x41>", "<s>a</s>", "\u0000", "\ufeffx", "\ufdd0", "12345 67890", "-1.5e-10",
    "the" * 40, "a" * 200, " " * 50, "for i := range 10 {\n\tfmt.Println(i)\n}\n",
] + [line for line in CORPUS.split("\n") if line]

ALPHABET = list("  \n\ttheandrqs<>/b.,0123") + ["é", "ß", "请", "求", "の", "\u2581", "🙂", "<b>", "  ", "</p>", "\u0301"]


def texts():
    r = random.Random(7)
    return TEXTS + ["".join(r.choice(ALPHABET) for _ in range(r.randrange(1, 60))) for _ in range(200)]


def train(prefix):
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.strip().split("\n") * 3), model_writer=out, model_type="bpe", vocab_size=760, byte_fallback=True,
        add_dummy_prefix=prefix, remove_extra_whitespaces=False, normalization_rule_name="identity", split_by_whitespace=False,
        user_defined_symbols=DEFINED, split_digits=True, character_coverage=0.99, minloglevel=2, max_sentence_length=10000)
    model = pb.ModelProto()
    model.ParseFromString(out.getvalue())
    return model


def published(path):
    """The vocabulary of a GGUF file, as a model of SentencePiece."""
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents()
    model = pb.ModelProto()
    model.trainer_spec.model_type, model.trainer_spec.byte_fallback = pb.TrainerSpec.BPE, True
    model.normalizer_spec.name, model.normalizer_spec.add_dummy_prefix = "identity", get("add_space_prefix")
    model.normalizer_spec.remove_extra_whitespaces, model.normalizer_spec.escape_whitespaces = False, True
    unknown = get("unknown_token_id")
    for i, (piece, score, kind) in enumerate(zip(get("tokens"), get("scores"), get("token_type"))):
        kind = 2 if i == unknown else kind
        piece = piece.replace(" ", "\u2581") if kind == 4 else piece
        model.pieces.add(piece=piece, score=score, type=kind)
    return model


def vocabulary(model):
    return dict(tokens=[p.piece for p in model.pieces], types=[p.type for p in model.pieces], scores=[round(p.score, 3) for p in model.pieces])


def merges(model):
    """Any two pieces whose text is a piece, best first."""
    pieces = {p.piece: p.score for p in model.pieces if p.type in (1, 4)}
    # user-defined pieces have no score: they come first, the shortest first
    order = sorted(pieces, key=lambda p: (0, len(p)) if p in defined(model) else (1, -pieces[p]))
    return [(p[:i], p[i:]) for p in order for i in range(1, len(p)) if p[:i] in pieces and p[i:] in pieces]


def defined(model):
    return {p.piece for p in model.pieces if p.type == 4}


def tokenizer(model, form):
    """A tokenizer.json of the same vocabulary."""
    vocab = {p.piece: i for i, p in enumerate(model.pieces)}
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges(model), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", "\u2581")
    if form == "replaced":
        t.normalizer, t.pre_tokenizer = replace, pre_tokenizers.Split(" ", "merged_with_previous")
    elif form == "prepended":
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), replace])
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme=form, split=False)
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_special_tokens([AddedToken(p.piece, special=True, normalized=False) for p in model.pieces if p.type in (2, 3)])
    t.add_tokens([AddedToken(p, special=False, normalized=False) for p in sorted(defined(model), key=vocab.get)])
    return t


def main():
    out = dict(texts=texts(), models=[], files=[])
    if len(sys.argv) > 2:
        model = published(sys.argv[2])
        sp = spm.SentencePieceProcessor(model_proto=model.SerializeToString())
        out["models"].append(dict(ids=[sp.encode(text) for text in out["texts"]]))
    else:
        for prefix in (False, True):
            model = train(prefix)
            sp = spm.SentencePieceProcessor(model_proto=model.SerializeToString())
            out["models"].append(dict(vocabulary(model), prefix=prefix, ids=[sp.encode(text) for text in out["texts"]]))
        for form in ("replaced", "prepended", "first", "always", "never"):
            t = tokenizer(model, form)
            text = json.loads(t.to_str())
            out["files"].append(dict(normalizer=text["normalizer"], pre_tokenizer=text["pre_tokenizer"],
                                     ids=[t.encode(text, add_special_tokens=False).ids for text in out["texts"]]))
            out["json"] = text
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()

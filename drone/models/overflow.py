"""Judges by rule whether a provider refused a request because it exceeds the context, and which size it states."""

from collections.abc import Collection, Iterator

from drone.agent.ports.model import ContextOverflow
from mcc.rules.patterns import Pattern, PatternMatch

LEAST_TOKENS = 256
MOST_TOKENS = 100_000_000
"""Figures outside these bounds are not a context size."""

_READ = 8_192
"""Most characters of a provider's words that are judged."""


def _words(*alternatives: str) -> str:
    return "|".join(alternatives)


_INPUT = _words(
    r"\b(?:prompts?|inputs?|contexts?|tokens?)\b",
    r"\b(?:prompt|input|total|context|num|message)_(?:tokens?|length|len|size|window|ids)\b",
    r"\bmax_(?:prompt|input|context)_(?:tokens|length)\b|\bmax_(?:seq|model|sequence)_len(?:gth)?\b|\bn_ctx\b",
    r"\b(?:kontext\w*|eingaben?|contexte|contexto|contesto|entrée|entrada)\b",
    r"提示词?|输入|上下文|輸入|入力|プロンプト|トークン|コンテキスト|입력|프롬프트|토큰|컨텍스트|промпт|контекст|токен",
)
"""What a request is made of, in words that hardly mean anything else."""

_REQUEST = _words(
    r"\b(?:requests?|messages|conversation|history|chat|payload|body)\b",
    r"\b(?:sequence|content|total|text|query)[ _]length\b",
    r"请求|消息|对话|文本|内容|长度|リクエスト|メッセージ|요청|메시지|запрос|сообщени",
)
"""The same in words that are also used of other things."""

_OUTPUT = _words(
    r"\bmax[_ ]?(?:completion[_ ]?|new[_ ]?|output[_ ]?|response[_ ]?)?tokens(?:_to_sample)?\b",
    r"\b(?:budget_tokens|thinking[_ ]budget|max_length|maxtokencount)\b",
    r"\b(?:output|completion|generated|new|response|reasoning|thinking)[_ ](?:tokens?|length|size|limit)\b",
    r"\btokens (?:to (?:generate|sample)|(?:in|for) (?:the )?(?:completion|output|response|reply))\b",
    r"输出|生成|出力|출력",
)
"""Limits of the reply, which no shorter request keeps."""

_OTHER = _words(
    r"\b(?:(?:input|prompt|message|request|user)s?[ _])?(?:images?|pictures?|photos?|audios?|videos?|files?)\b",
    r"\b(?:pixels?|pdfs?|documents?|attachments?|schemas?|properties|metadata|headers?|urls?|pattern|regex|dimensions?)\b",
    r"\b(?:tools?|functions?)[ _-](?:names?|descriptions?|schemas?|definitions?|calls?|choices?|parameters?|ids?)\b",
    r"\b(?:the name|tools|functions|keys?|ids?|stop(?: sequences?)?|temperature|top_?[pk]|seed|(?:top_)?logprobs)\b",
    r"\b(?:logit_bias|\w*penalty|timeout|deadline|time limit|timed out|retries|attempts|connections?|depth)\b",
    r"\b(?:access|auth\w*|bearer|api|refresh|id|session|csrf|stop|special|jwt|invalid)[ _]tokens?\b|\bcache_control\b",
    r"\btoken (?:has )?(?:expir\w+|lifetime)\b|\b(?:prompt|context) cach(?:e|ing)\b|\bconsecutive\b",
    r"图片|图像|照片|像素|音频|视频|文件|工具|函数|画像|ファイル|이미지|파일|изображени|файл",
)
"""Other things that may be too long, too large or too many."""

_TOO_MUCH = Pattern(
    _words(
        r"exceed|overflow|overlong|oversize|too (?:long|large|big)|too many (?:\w+ ){0,2}(?:tokens|messages|char)",
        r"(?:longer|larger|greater|bigger|higher) than|more than (?:the|its|allowed|\D{0,20}\d)",
        r"\bover (?:the|its|their|your)\b|limit (?:was |is )?reached|\breached (?:the )?(?:max\w* )?(?:context|token)",
        r"(?:context|cache) (?:window |size )?(?:is )?full\b|\broom for \d|expected maxlength",
        r"(?:doesn't|does not|don't|do not|cannot|can't|won't) fit|not enough (?:context|room|space)",
        r"out ?of ?(?:the )?context",
        r"reduce (?:the |your )?(?:length|size|number)|(?:reduce|shorten|truncate|decrease) (?:the |your )?"
        r"(?:prompt|input|messages|conversation|context|history)",
        r"(?:must|should|can|may|has to|have to)\b[^.;]{0,30}(?:less|fewer|smaller|shorter|lower|at most|<|within|"
        r"no more|no longer|not more|\[\d)",
        r"\d\s*>\s*\d|上限|超过|超過|超出|超长|超長|超限|过长|過長|过大|太长|太大|长度限制",
        r"\bzu (?:lang|groß)\b|überschr|dépass|trop long|\bsuper[ai]\b|\bexcede|demasiado|troppo lung",
        r"超え|長すぎ|大きすぎ|초과|너무 (?:길|크|많)|превы|слишком (?:длин|больш|велик|много)",
    ),
    ignore_case=True,
)
"""Words for too much."""

_BOUND = Pattern(
    r"\b(?:(?:maximum|max|limit(?:ed)?|at most|up to)\b|no more than|only supports? \D{0,20}\d)"
    r"|最大|限制|제한|максимал",
    ignore_case=True,
)
"""Words for a bound, which need not be passed."""

_PASSING = Pattern(
    _words(
        r"rate[ _-]?limit|too[ _]many[ _]requests|requests? (?:per|rate)|throttl|\b[RT]P[MDS]\b|\bconcurren",
        r"\bper[ _-]?(?:minute|min|second|sec|hour|day|week|month)\b|/ ?(?:min|sec|hour|day)|\b(?:daily|monthly)\b",
        r"quota|billing|\bbalance\b|\bcredits?\b|payment|overdue|polic(?:y|ies)\b|safety|moderation|flagged",
        r"content[ _-]?filter|\bseverity\b|\b(?:for|of) (?:the|this|to) ?(?:day|month|week|hour)\b|\bfor your tier",
        r"每分钟|每分|每秒|每天|每日|频率|速率|限流|并发|额度|余额|欠费|配额|敏感|违规|レート|毎分|분당|한도|в минуту",
    ),
    ignore_case=True,
)
"""Limits that pass by waiting or paying, and refusals of what was said: they pair the same words."""

_FIRST = Pattern(f"(?P<other>{_OUTPUT}|{_OTHER})|(?P<input>{_INPUT}|{_REQUEST})", ignore_case=True)
_ANY_INPUT = Pattern(_INPUT, ignore_case=True)
_ANY_OTHER = Pattern(_OTHER, ignore_case=True)
_CONTEXT = Pattern(r"context|prompt|上下文|コンテキスト|컨텍스트|контекст", ignore_case=True)
_SENTENCE = Pattern(r"[。；！？;\n]|[.!?](?:\s|$)")
_PATH = Pattern(r"\b[A-Za-z_]\w*(?:\[\d+\]|\.\w+)+")
_QUOTES = str.maketrans(dict.fromkeys("`'\"\u2018\u2019\u201c\u201d*"))
_TEXTS = ("content", "text", "input", "prompt", "messages")
_FIELDS = ("messages", "input", "inputs", "contents", "tools", "functions", "body", "request", "prompt")
_ASIDE = Pattern(
    r"https?://\S+|\binvalid (?:inputs?|requests?|parameters?|params|values?|arguments?)(?:_error)?\b"
    r"|\binput should\b|\bmalformed input request\b|[\"']input[\"']: ?(?:[-\d.]+|\"[^\"]*\"|'[^']*')",
    ignore_case=True,
)
"""Addresses, and phrases that begin any refusal."""

_CAMEL = Pattern(r"[A-Z]?[a-z]+|[A-Z]+|\d+")

_CODES = frozenset({"1261", "model_max_prompt_tokens_exceeded"})
_CODES_OF_PARAMETERS = frozenset({"1210", "20015", "2013"})
"""Codes of some providers for parameters out of bounds, which they give for the context too."""

_REFUSALS = frozenset({None, 400, 413, 422, 500})
"""Statuses of such refusals without a code; None = it arrived inside a stream."""

_NEVER = frozenset({401, 402, 403, 404, 408, 409, 429})
"""Statuses of other refusals, which pair the same words; only a code that names the context counts there."""


def overflow_of(
    said: str, words: str, kinds: Collection[str], status: int | None, body: str = ""
) -> ContextOverflow | None:
    """The error if a provider's `words`, or the types and codes in its answer, report an overflow. `said` is the
    sentence for people; `body` is the whole answer, which may state the size."""
    if not _is_overflow(words[:_READ], kinds, status):
        return None
    window = window_in(words) or window_in(body)
    return ContextOverflow(said, None if str(window) in kinds else window, status=status)


def _is_overflow(words: str, kinds: Collection[str], status: int | None) -> bool:
    codes = [_spaced(kind) for kind in kinds]
    if _CODES.intersection(kinds) or any(_CONTEXT.search(code) and _says_too_much(code) for code in codes):
        return True
    if status in _NEVER or _PASSING.search(words) or any(map(_PASSING.search, codes)):
        return False
    sentences = list(_sentences(words))
    if status in _REFUSALS and any(_says_too_much(sentence, broken=status in (None, 500)) for sentence in sentences):
        return True
    if status is None or not 400 <= status < 500:
        return False
    of_parameters = status == 413 or bool(_CODES_OF_PARAMETERS.intersection(kinds))
    return any(map(_says_too_much, codes)) or (of_parameters and not any(map(_is_of_other, sentences)))


def _spaced(kind: str) -> str:
    """A code such as `ContextLengthExceeded` or `context_length_exceeded` as words."""
    return " ".join(_CAMEL.findall(kind[:200])).lower()


def _sentences(words: str) -> Iterator[str]:
    """The sentences without quotation marks; a path such as `messages[1].id` is replaced by what it ends with."""
    plain = _PATH.sub(_end_of_path, _ASIDE.sub("", words).translate(_QUOTES))
    yield from filter(str.strip, _SENTENCE.split(plain))


def _end_of_path(path: PatternMatch) -> str:
    parts = [part for part in path.group().replace("[", ".").replace("]", "").split(".") if not part.isdigit()]
    if parts[-1] in _TEXTS:
        return "input"
    return f"the name {parts[-1]}" if parts[0] in _FIELDS else parts[-1]


def _is_of_other(sentence: str) -> bool:
    first = _FIRST.search(sentence)
    return first is not None and first["other"] is not None


def _says_too_much(sentence: str, *, broken: bool = False) -> bool:
    """Whether the sentence says first of the request, and of nothing else, that it is too much.

    `broken`: it stands in an answer that reports a failure of the server, so only plain words count.
    """
    first = _FIRST.search(sentence)
    if first is None or first["other"] is not None:
        return False
    plainly, alone = _ANY_INPUT.search(sentence) is not None, _ANY_OTHER.search(sentence) is None
    if _TOO_MUCH.search(sentence):
        return plainly or (alone and not broken)
    bounded = _BOUND.search(sentence) is not None
    return alone and bounded and (_CONTEXT if broken else _ANY_INPUT).search(sentence) is not None


_SIZE = r"(\d{3,9})"
_IS = r"(?:\s*(?:is|was|of|:|=|to)){0,2}(?: only)?\s*"
_WINDOWS = tuple(
    Pattern(pattern, ignore_case=True)
    for pattern in (
        rf"maximum (?:context|prompt|input|sequence|model)(?: length| size| window)?{_IS}{_SIZE}",
        rf"context (?:limit|window|length)[^.;]{{0,80}}> {_SIZE}",
        rf"> {_SIZE} maximum",
        rf"available context size \({_SIZE} tokens",
        rf"{_SIZE} maximum context length",
        rf"maximum context length of [\w.:/-]+ is {_SIZE}",
        rf"context window \({_SIZE}",
        rf"total tokens? limit{_IS}{_SIZE}",
        rf"\blimit for this model{_IS}{_SIZE} tokens",
        rf"\bn_ctx ?[=:] ?{_SIZE}",
        rf"maximum number of (?:input )?tokens allowed \({_SIZE}\)",
        rf"context window (?:of|is|limit of) {_SIZE}",
        rf"context length of (?:only )?{_SIZE}",
        rf'"n_ctx": ?{_SIZE}',
        rf"(?:context|input|prompt|token|sequence)s?[ _](?:length|size|window|limit|len){_IS}\(?{_SIZE} tokens",
        rf"(?:model|context|input|prompt) tokens? limit{_IS}{_SIZE}",
        rf"exceeds? (?:the |this |its )?(?:model'?s? )?(?:maximum )?(?:token )?limit of {_SIZE}",
        rf"max_(?:seq|model|sequence|context|input)_len(?:gth)?{_IS}\(?{_SIZE}",
        rf"input length should be \[\d{{1,3}}, ?{_SIZE}\]",
        rf"tokens`? ?(?:\+ ?`?\w+`? )?must be <=? ?{_SIZE}",
        rf"(?:input|prompt|inputs)\b[^.;]{{0,60}}(?:(?:can|must )not exceed|must be no more than|must have less than|"
        rf"at most|supports up to) {_SIZE}",
        rf"(?:limit|length|size|上限|限制|最大\D{{0,12}}|不能超过|超过|超出)[^\d.;。]{{0,8}}{_SIZE} ?(?:个 ?)?tokens?",
    )
)
_GROUPED = Pattern(r"\b\d{1,3}(?:[,_]\d{3})+\b")
_NO_BOUND = Pattern(
    r"\s*(?:bytes|[KMG]i?B\b|char|字|images?|pixels?|messages|items|seconds|\.?\d)"
    r"|(?: ?tokens?)?\)?,? ?(?:which |that )?(?:(?:is|are|was|were) )?"
    r"(?:exceed(?:s|ing)?\b|exceeded (?:the|its|max)|>|over\b|too\b|"
    r"(?:longer|larger|greater|more) than|(?:max|the limit|limit)\b|but (?:the|this) model|超)",
    ignore_case=True,
)
"""What follows a number that is counted in another unit, or is the size of the request: that goes over the bound."""

_LONGEST_SENTENCE = 500


def window_in(words: str) -> int | None:
    """The model's context size in tokens as stated in a provider's refusal; None if it states none.

    A number counts only where the words make it the bound of the context: a code or a count of bytes is none.
    """
    plain = _GROUPED.sub(lambda grouped: grouped.group().replace(",", "").replace("_", ""), words)
    for pattern in _WINDOWS:
        for size in pattern.finditer(plain):
            upto = _sentence_up_to(plain, size.end(1))
            excess = plain[: size.start(1)].endswith(" by ")
            if not (excess or _NO_BOUND.match(plain, size.end(1)) or _is_of_other(upto)):
                return plausible_window(int(size[1]))
    return None


def _sentence_up_to(words: str, end: int) -> str:
    """The sentence that `end` lies in, as far as that."""
    before = words[max(0, end - _LONGEST_SENTENCE) : end]
    return [*_SENTENCE.split(before)][-1].translate(_QUOTES)


def plausible_window(tokens: int | None) -> int | None:
    """`tokens` if it is plausible as a context size, else None."""
    return tokens if tokens is not None and LEAST_TOKENS <= tokens <= MOST_TOKENS else None

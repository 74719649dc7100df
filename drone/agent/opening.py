"""The message that a run begins with: what is known of its surroundings, then what is asked of it."""

_BEGIN = "# Environment\n\n"
_REQUEST = "\n\n# Request\n\n"
_FENCE = "\n<untrusted "


def opened(environment: str, prompt: str) -> str:
    """The first message of an agent; `environment` empty: nothing but the prompt."""
    return f"{_BEGIN}{environment}{_REQUEST}{prompt}" if environment else prompt


def request_in(text: str) -> str:
    """The prompt that `opened` was given; what it did not make comes back as it is."""
    if not text.startswith(_BEGIN):
        return text
    _, fence, fenced = text.partition(_FENCE)
    number = fenced.partition(">")[0]
    rest = fenced.partition(f"\n</untrusted {number}>")[2] if fence else text
    return rest.partition(_REQUEST)[2] or text

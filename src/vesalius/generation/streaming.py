"""Streaming: text as tokens arrive, in whole characters, without the beginning of a stop string."""

import codecs
from collections.abc import Sequence

from vesalius.tokenizers import Tokenizer


class TextStream:
    """The text after a prompt. It ends where one of the stop strings would begin."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stop: Sequence[str]) -> None:
        self.tokenizer, self.stop = tokenizer, tuple(stop)
        self.ids, self.before = list(prompt), tokenizer.decode(prompt)
        self.bytes = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.arrived, self.given = "", 0
        self.stopped = False

    @property
    def text(self) -> str:
        """The text given out so far."""
        return self.arrived[: self.given]

    def add(self, token: int) -> str:
        """Add a token; the text that became certain with it."""
        if self.tokenizer.byte_level:
            self.arrived += self.bytes.decode(self.tokenizer.bytes_of(token))
        else:  # whether a space stands between two tokens shows when both are decoded
            self.ids.append(token)
            self.arrived = self.tokenizer.decode(self.ids)[len(self.before) :]
        return self._give(len(self.arrived) - self._doubtful())

    def end(self) -> str:
        """The text that was held back, when no more tokens come."""
        if not self.stopped:
            self.arrived += self.bytes.decode(b"", final=True)
        return self._give(len(self.arrived))

    def _give(self, end: int) -> str:
        found = [at for at in (self.arrived.find(s, self.given) for s in self.stop) if at >= 0]
        if found:
            self.stopped, self.arrived = True, self.arrived[: min(found)]
            end = len(self.arrived)
        new, self.given = self.arrived[self.given : end], max(end, self.given)
        return new

    def _doubtful(self) -> int:
        """How many characters at the end may be the beginning of a stop string."""
        longest = max((len(s) for s in self.stop), default=1) - 1
        for length in range(min(longest, len(self.arrived) - self.given), 0, -1):
            if any(s.startswith(self.arrived[-length:]) for s in self.stop):
                return length
        return 0

"""Messages are for people, however much of a damaged file they quote."""

import pickle

from vesalius.errors import BrokenFile, CheckpointMismatch, UnknownStep, VesaliusError


def test_what_a_file_says_is_quoted_in_part() -> None:
    word = str(BrokenFile(f"expected a number, got {'x' * 100_000!r}; fill the gap"))
    assert len(word) < 1200
    assert word.startswith("expected a number, got 'xxx")
    assert word.endswith("x… fill the gap")
    many = str(BrokenFile(f"expected a number, got {[0] * 100_000}; fill the gap"))
    assert len(many) <= 3010
    assert many.startswith("expected a number, got [0, 0")
    assert many.endswith("0, 0]; fill the gap")


def test_all_tensors_that_do_not_fit_are_listed() -> None:
    names = ", ".join(f"blocks.{n}.attention.query.weight" for n in range(1000))
    assert str(CheckpointMismatch(names)) == names


def test_messages_stay_as_they_are_and_errors_can_go_to_another_process() -> None:
    for kind in (VesaliusError, UnknownStep):
        assert str(pickle.loads(pickle.dumps(kind("no step A[9]; did you mean A[1]?")))) == (
            "no step A[9]; did you mean A[1]?"
        )


def test_a_message_commands_no_terminal() -> None:
    said = str(BrokenFile("unexpected: \x1b[2J\x9bA\u202e, ét\té\n"))
    assert said == "unexpected: ␛[2J\ufffdA\ufffd, ét\té\n"

import { describe, expect, it, vi } from "vitest";
import { linesOf, typing } from "../../src/lib/typing";

function pressed(key: string, more: KeyboardEventInit = {}): { sent: number; left: number; kept: boolean } {
  const [form, field, leave] = [document.createElement("form"), document.createElement("textarea"), vi.fn()];
  form.append(field);
  form.requestSubmit = vi.fn();
  field.addEventListener("keydown", (event) => typing(event, leave));
  const event = new KeyboardEvent("keydown", { key, cancelable: true, ...more });
  field.dispatchEvent(event);
  return {
    sent: vi.mocked(form.requestSubmit).mock.calls.length,
    left: leave.mock.calls.length,
    kept: event.defaultPrevented,
  };
}

describe("in a field for a text", () => {
  it("Enter reads it", () => {
    expect(pressed("Enter")).toEqual({ sent: 1, left: 0, kept: true });
  });

  it("Enter with Shift ends a line", () => {
    expect(pressed("Enter", { shiftKey: true })).toEqual({ sent: 0, left: 0, kept: false });
  });

  it("Enter that ends a word of another script reads nothing", () => {
    expect(pressed("Enter", { isComposing: true })).toEqual({ sent: 0, left: 0, kept: false });
  });

  it("Escape leaves", () => {
    expect(pressed("Escape")).toEqual({ sent: 0, left: 1, kept: false });
  });

  it("lines are shown up to eight", () => {
    expect([linesOf(""), linesOf("a\nb"), linesOf("\n".repeat(20))]).toEqual([1, 2, 8]);
  });
});

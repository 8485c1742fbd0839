/* Whether single letters and signs act as keys; who speaks to the computer may want none. */

class Letters {
  on = $state(localStorage.getItem("letters") !== "off");

  turn(): void {
    this.on = !this.on;
    localStorage.setItem("letters", this.on ? "on" : "off");
  }
}

export const letters = new Letters();

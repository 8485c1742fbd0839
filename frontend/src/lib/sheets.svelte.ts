/* The sheets that may lie over the page, where more than one place opens them. */

class Sheets {
  equations = $state(false);
}

export const sheets = new Sheets();

// An answer that takes long: it says so, and can be stopped. The server drops what it has not begun.
import { t } from "./tongue.js";

const LONG = 400; // milliseconds

/** Until the function that it gives is called. said: where to say it; button: stops it; question: see `latest`. */
export function waiting(said, button, question) {
  button.onclick = () => question.stop();
  const timer = setTimeout(() => { said.textContent = t("Working it out…"); button.hidden = false; }, LONG);
  return () => { clearTimeout(timer); button.hidden = true; };
}

export const STOPPED = t("Stopped. What is shown below, if anything, is the answer to the question before.");

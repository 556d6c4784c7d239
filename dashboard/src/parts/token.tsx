// Asks for the token a gateway that is not on loopback demands.

import { useState } from "preact/hooks";

import { token } from "../api";
import { connect } from "../state";

/** What tokens are made of; a browser sends nothing else in a field. */
const TOKEN = /^[\x21-\x7e]+$/;

export function TokenForm({ why }: { why: string }) {
  const [value, setValue] = useState("");
  const [isNone, setNone] = useState(false);
  const wasWrong = isNone || token.read() !== null;
  return (
    <form
      class="card narrow"
      onSubmit={(event) => {
        event.preventDefault();
        setNone(!TOKEN.test(value.trim()));
        if (!TOKEN.test(value.trim())) return;
        token.keep(value.trim());
        connect();
      }}
    >
      <h1>This gateway asks for a token</h1>
      <p class="soft">
        Whoever runs it has put tokens into files named by its configuration. A token either lets you look, or change
        settings as well. It is kept in this tab only, until the tab is closed.
      </p>
      <label for="token">Token</label>
      <input
        id="token"
        type="password"
        autocomplete="off"
        required
        value={value}
        aria-invalid={wasWrong}
        aria-describedby={wasWrong ? "token-why" : undefined}
        onInput={(event) => setValue(event.currentTarget.value)}
      />
      {wasWrong && <p id="token-why" class="fault" role="alert">{isNone ? "This is no token: tokens have letters, digits and signs of ASCII only. Copy it whole." : why}</p>}
      <button class="primary" type="submit">Use this token</button>
    </form>
  );
}

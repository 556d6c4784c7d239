// Where the page begins.

import { render } from "preact";

import { App } from "./app";
import { connect } from "./state";
import "./style.css";

const root = document.getElementById("app");
if (root !== null) {
  connect();
  render(<App />, root);
}

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { newQueryClient } from "./api/query";
import { drop, followLinks, followOtherTabs, login, session, takeToken } from "./api/session";
import { App } from "./app";
import { Connection } from "./live/connection";
import { followQueries } from "./live/invalidate";
import { gatewayStream } from "./live/source";
import { Login } from "./shell/Login";
import { startTheme } from "./shell/theme";
import "./styles.css";

// Remove the token from the address before other code reads the address.
const token = takeToken();
const attempt = token === undefined ? undefined : login(token);
attempt?.catch(() => undefined);
startTheme();
followLinks();
followOtherTabs();

const container = document.getElementById("root");
if (container === null) throw new Error("index.html has no element with the id root");

function page() {
  const here = session();
  if (here === undefined || attempt !== undefined) {
    if (location.pathname !== "/login") {
      sessionStorage.setItem("palyra.next", location.pathname + location.search);
      history.replaceState(null, "", "/login");
    }
    return <Login attempt={attempt} />;
  }
  if (location.pathname === "/login") history.replaceState(null, "", "/");
  const queries = newQueryClient();
  const live = new Connection(gatewayStream, `palyra.live.${here.user}`, () => drop(here.secret, "ended"));
  followQueries(live, queries);
  return <App queries={queries} live={live} />;
}

createRoot(container).render(<StrictMode>{page()}</StrictMode>);

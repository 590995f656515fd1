import { configure } from "@testing-library/react";

// How long waitFor and findBy poll before their test fails, in milliseconds.
configure({ asyncUtilTimeout: 2 * 60_000 });

import { configure } from "@testing-library/react";

// The timeout of waitFor and findBy, in milliseconds.
configure({ asyncUtilTimeout: 2 * 60_000 });

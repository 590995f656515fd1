import type { DescService } from "@bufbuild/protobuf";
import type { Client, Interceptor } from "@connectrpc/connect";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { isBackgroundRequest } from "./activity";
import { isSessionEnded } from "./errors";
import { drop, session } from "./session";

// Adds the secret of this origin to each request. When the gateway reports that the session
// has ended, the session also ends in this browser.
const authenticate: Interceptor = (next) => async (request) => {
  const secret = session()?.secret;
  if (secret !== undefined) request.header.set("Palyra-Console-Secret", secret);
  if (request.stream || isBackgroundRequest()) request.header.set("Palyra-Console-Background", "1");
  try {
    return await next(request);
  } catch (thrown) {
    if (secret !== undefined && isSessionEnded(thrown)) drop(secret, "ended");
    throw thrown;
  }
};

export const transport = createConnectTransport({
  baseUrl: location.origin,
  useBinaryFormat: true,
  interceptors: [authenticate],
});

const clients = new Map<string, Client<DescService>>();

/** Returns the client of a service, shared by the whole page. */
export function client<T extends DescService>(service: T): Client<T> {
  let cached = clients.get(service.typeName);
  if (cached === undefined) {
    cached = createClient<DescService>(service, transport);
    clients.set(service.typeName, cached);
  }
  return cached as Client<T>;
}

import type { DescService } from "@bufbuild/protobuf";
import type { Client, Interceptor } from "@connectrpc/connect";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { inBackground } from "./activity";
import { sessionOver } from "./errors";
import { drop, session } from "./session";

// Each request carries the secret of this origin. The gateway's word that the session is
// over ends it here too.
const authenticate: Interceptor = (next) => async (request) => {
  const secret = session()?.secret;
  if (secret !== undefined) request.header.set("Palyra-Console-Secret", secret);
  if (request.stream || inBackground()) request.header.set("Palyra-Console-Background", "1");
  try {
    return await next(request);
  } catch (thrown) {
    if (secret !== undefined && sessionOver(thrown)) drop(secret, "ended");
    throw thrown;
  }
};

export const transport = createConnectTransport({
  baseUrl: location.origin,
  useBinaryFormat: true,
  interceptors: [authenticate],
});

const clients = new Map<string, Client<DescService>>();

/** The client of a service; one for the whole page. */
export function client<T extends DescService>(service: T): Client<T> {
  let known = clients.get(service.typeName);
  if (known === undefined) {
    known = createClient<DescService>(service, transport);
    clients.set(service.typeName, known);
  }
  return known as Client<T>;
}

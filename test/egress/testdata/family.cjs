// Node and npm have no option for the family of addresses: $FAMILY is all that a
// name has.
const dns = require('node:dns');
const lookup = dns.lookup;
dns.lookup = (host, options, callback = options) => lookup(host, { ...options, family: Number(process.env.FAMILY) }, callback);

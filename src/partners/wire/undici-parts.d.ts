/**
 * Types of the parts of undici that the hub loads. The whole of it has fetch, WebSockets and caches, too: to load them takes a start
 * more CPU time than everything else that is loaded for calls to partners. undici promises these paths in no version: `test/house/bundle.test.ts`
 * fails when one of them no longer leads to what the public interface has.
 */
declare module 'undici/lib/core/connect.js' {
  import { buildConnector } from 'undici';
  export = buildConnector;
}
declare module 'undici/lib/core/errors.js' {
  import { errors } from 'undici';
  export = errors;
}
declare module 'undici/lib/core/util.js' {
  import { util } from 'undici';
  export = util;
}
declare module 'undici/lib/dispatcher/client.js' {
  import { Client } from 'undici';
  export = Client;
}

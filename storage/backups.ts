/** The types of `Store.backup`, re-exported by the contract. */
/** Contents of a backup's `manifest.json`. */
export interface BackupManifest {
  readonly format: 2;
  /** RFC 3339. */
  readonly made_at: string;
  readonly head: number;
  readonly horizon: number;
  readonly events: number;
  readonly rows: number;
  /** Delivery rows: open ones and remembered successes. */
  readonly deliveries: number;
  readonly timers: number;
  /** All records, including those that the store keeps for itself. */
  readonly records: number;
  /** Bytes of all keys and values, in UTF-8. */
  readonly bytes: number;
  /** SHA-256 over every key and value in order, hexadecimal. */
  readonly digest: string;
  /** Fingerprint of the public key for which the backup is sealed; absent when it is not sealed. */
  readonly sealed_for?: string;
}

export interface BackupOptions {
  /** Called from time to time with the number of records copied, then verified. */
  readonly progress?: (step: 'copying' | 'verifying', records: number) => void;
  /** Aborts the backup; nothing is left behind. */
  readonly signal?: AbortSignal;
}

/** A hook that asks the hub whose token a reload has kept, until it answers: before, no action is shown. */
import { useEffect } from 'preact/hooks';
import { useQuery } from './query.ts';
import { type Caller, caller } from './session.ts';

const retryMs = 2_000;

export function useCaller(): void {
  const { data } = useQuery<Caller>(caller.value === null ? '/caller' : null, retryMs);
  useEffect(() => {
    if (data) caller.value = data;
  }, [data]);
}

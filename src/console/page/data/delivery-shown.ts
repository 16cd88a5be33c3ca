/**
 * The admin API's answer for one delivery.
 */
import type { DeliveryDetail } from '../../../hub/ports/operator.ts';
import type { ShownRequest } from './curl.ts';

export interface DeliveryShown extends Omit<DeliveryDetail, 'request'> {
  readonly request: ShownRequest;
}

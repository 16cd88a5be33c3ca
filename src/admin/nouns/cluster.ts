/**
 * Route `/cluster`: the nodes of a hub and their owner. Every node answers it, even while no hub runs on it.
 */
import { type ClusterView, clusterView } from '../../api/cluster.ts';
import { type AdminRoute, route } from '../route.ts';

export function cluster(view: () => ClusterView): AdminRoute[] {
  return [
    route({
      method: 'GET',
      path: '/cluster',
      summary: 'Show the nodes of the hub and which of them is the owner',
      answer: clusterView,
      run: view,
    }),
  ];
}

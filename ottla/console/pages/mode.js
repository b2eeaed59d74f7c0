// How the console was started; the server changes it.
export const isReadOnly = false;
// Whether the cluster is elsewhere, so that there are no faults, no clock and no history of clients.
export const isElsewhere = false;

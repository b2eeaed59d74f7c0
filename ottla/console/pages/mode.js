// How the console was started; the server changes it.
export const isReadOnly = false;

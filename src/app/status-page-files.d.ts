/** The status page's own files are imported as texts. */
declare module "*.client.js" {
  const text: string;
  export default text;
}

declare module "*.css" {
  const text: string;
  export default text;
}

// A client of a zoosim service, for browsers and Node (18 or later): one file, no dependencies, no build step.
//
//     import { Client } from "./zoosim.mjs";
//     const shop = new Client("http://127.0.0.1:8100");
//     const decision = await shop.decide({ country: "de" }, ["SKU-1", "SKU-2"]);
//     await shop.giveFeedback(decision.id, { click: 1 });

export const TRIES = 4;
/** Seconds before a request is sent again; each further pause is twice as long, or as long as the service asks for. */
export const FIRST_PAUSE = 0.1;
export const LONGEST_PAUSE = 5;
/** Seconds that one try may take. */
export const TIMEOUT = 5;
/** Statuses of what may go well a little later. */
const PASSING = [429, 502, 503, 504];
/** The arm that decides where an answer names none. */
const CHAMPION = "champion";

/**
 * @typedef {null | boolean | number | string} Scalar
 * @typedef {Object<string, Scalar | Scalar[]>} Columns  What is known of a visitor or a product, by column.
 * @typedef {string | number | Columns} Candidate  An id, or an `id` and the columns of a product's features.
 *
 * @typedef {object} Decision
 * @property {string} id  The decision's id, which feedback names.
 * @property {string} product  The product to show at the top.
 * @property {number} propensity  The probability with which it was drawn.
 * @property {string[]} products  What to show, from the top.
 * @property {number[]} shownPropensities  The propensity of each, given those above it.
 * @property {Object<string, number>} propensities  The propensity of each candidate for the top.
 * @property {string} model  The digest by which the service knows the model that decided.
 * @property {string} arm  The arm that decided.
 * @property {string[]} ignored  Candidates that could not be shown.
 * @property {string[]} warnings  Lines on what of the request the model was not made for.
 * @property {number[]} pinned  Places, 1 being the top, that show pinned products.
 * @property {Object<string, string[]>} barred  Candidates that a rule of the shop kept back, by rule.
 * @property {string[]} lifted  Rules that did not hold, since they left nothing.
 *
 * @typedef {object} Ranking
 * @property {string} id  The decision's id, which feedback names.
 * @property {string[]} products  What to show, from the top.
 * @property {number[]} boosts  The boosts that made the ranking.
 * @property {number | null} density  That of the boosts; null where they were not drawn.
 * @property {string} model  The digest by which the service knows the model that decided.
 * @property {string} arm  The arm that decided.
 * @property {string[]} ignored  Candidates that the model does not know.
 * @property {string[]} warnings  Lines on what of the request the model was not made for.
 */

/** The service refused a request, or could not be reached: `status` is 0 where it gave no answer. */
export class ServiceError extends Error {
  /** @param {string} message @param {number} status */
  constructor(message, status) {
    super(message);
    this.name = "ServiceError";
    this.status = status;
  }
}

/** A service. Requests that fail on their way are sent again, up to three times; by their ids they count once. */
export class Client {
  #url;
  #headers;
  #timeout;

  /**
   * @param {string} url  Where the service listens, such as `http://127.0.0.1:8100`, or in a page a path of its own
   *     site that leads there, such as `/zoosim`.
   * @param {{key?: string, timeout?: number, loop?: string}} [options]  The service's key, where it has one: never in a
   *     page, whose readers would have it. Seconds that one try may take. The name of the loop to ask, where the service
   *     has several.
   * @throws {TypeError}  The URL is none, or the key cannot be sent.
   */
  constructor(url, { key = "", timeout = TIMEOUT, loop = "" } = {}) {
    if (!/^(https?:\/\/.|\/)/.test(url)) throw new TypeError(`url: got ${url}, expected that of a service, or a path`);
    if (!/^[ -~]*$/.test(key)) throw new TypeError("key: got one with characters other than printable ASCII");
    this.#url = url.replace(/\/+$/, "") + (loop && `/loops/${encodeURIComponent(loop)}`);
    this.#headers = { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
    this.#timeout = timeout;
  }

  /**
   * Return what to show.
   *
   * @param {Columns} visitor  What is known of the visitor and the request.
   * @param {Candidate[]} [candidates]  What may be shown; all products of the service where left out.
   * @param {{count?: number, decisionId?: string, visitorId?: string, defer?: boolean,
   *     pinned?: Object<number, string>, forbidden?: string[]}} [options]  How many to show; an id of your own; who the
   *     visitor is; whether the decision counts only once it is activated; products by place, 1 being the top; products
   *     that may not be shown.
   * @returns {Promise<Decision>}
   * @throws {ServiceError}  The service refused, or could not be reached in `TRIES` tries.
   * @throws {TypeError}  An option is none, or a number is not finite.
   */
  async decide(visitor, candidates, { count = 1, pinned, forbidden, ...options } = {}) {
    const body = { ...asked(visitor, options), candidates, count, pinned, forbidden };
    const answer = await this.#send("/v1/decisions", body);
    const products = answer.shown.map(each => each.product);
    const shownPropensities = answer.shown.map(each => each.propensity);
    return {
      ...answered(answer),
      product: products[0],
      propensity: shownPropensities[0],
      products,
      shownPropensities,
      propensities: answer.propensities,
      pinned: answer.pinned ?? [],
      barred: answer.barred ?? {},
      lifted: answer.lifted ?? [],
    };
  }

  /**
   * Return in which order to show the results of a search.
   *
   * @param {Columns} visitor  `segment` and `query_type`, and where the shop estimates them its tastes.
   * @param {Object<string, number> | {id: string, score: number}[]} candidates  The base ranker's score of each product.
   * @param {{decisionId?: string, visitorId?: string, defer?: boolean}} [options]  As in `decide`.
   * @returns {Promise<Ranking>}
   * @throws {ServiceError}  As `decide`.
   */
  async rank(visitor, candidates, options = {}) {
    const answer = await this.#send("/v1/searches", { ...asked(visitor, options), candidates });
    return { ...answered(answer), products: answer.ranking, boosts: answer.boosts, density: answer.density };
  }

  /**
   * Send the rewards of a decision; a call counts once, however often its request is sent again.
   *
   * @param {string} decisionId  The `id` of the decision.
   * @param {Object<string, number>} rewards  What was earned, by reward.
   * @param {{product?: string, feedbackId?: string}} [options]  Which of the shown products earned it, the first where
   *     left out; an id of your own: feedback with the same one counts once.
   * @returns {Promise<string>}  "accepted", "duplicate", or "late", which is logged and not learned.
   * @throws {ServiceError}  As `decide`.
   */
  async giveFeedback(decisionId, rewards, { product, feedbackId = newId() } = {}) {
    return this.#tell(decisionId, "feedback", { rewards, feedback_id: feedbackId, product });
  }

  /**
   * Activate a deferred decision; returns and throws as `giveFeedback`.
   *
   * @param {string} decisionId
   * @returns {Promise<string>}
   */
  async activate(decisionId) {
    return this.#tell(decisionId, "activation", {});
  }

  /** Say something of a decision; goes on when its page is left, as by the click that it tells of. */
  async #tell(decisionId, what, body) {
    const path = `/v1/decisions/${encodeURIComponent(decisionId)}/${what}`;
    return (await this.#send(path, body, true)).status;
  }

  async #send(path, body, keepalive = false) {
    const content = JSON.stringify(body, finite);
    for (let number = 1; ; number++) {
      const answer = await this.#tryOnce(path, content, keepalive);
      if (!answer.mayPass || number === TRIES) return contentOf(answer, this.#url);
      const pause = Math.max(FIRST_PAUSE * 2 ** (number - 1), Math.min(answer.retryAfter, LONGEST_PAUSE));
      await new Promise(resolve => setTimeout(resolve, 1000 * pause));
    }
  }

  /** Send a request once; its answer is `{status, text, mayPass, retryAfter}`, with status 0 where there was none. */
  async #tryOnce(path, body, keepalive) {
    try {
      const response = await fetch(this.#url + path, {
        method: "POST",
        headers: this.#headers,
        body,
        keepalive,
        signal: AbortSignal.timeout(1000 * this.#timeout),
      });
      const { status } = response;
      const retryAfter = Number.parseInt(response.headers.get("Retry-After") ?? "", 10) || 0;
      return { status, text: await response.text(), mayPass: PASSING.includes(status), retryAfter };
    } catch (error) {
      // Node names the reason in the cause of its TypeError.
      return { status: 0, text: error.cause?.message || error.message, mayPass: true, retryAfter: 0 };
    }
  }
}

/** What requests for decisions and for rankings have in common; what is undefined is not sent. */
function asked(visitor, { decisionId = newId(), visitorId, defer, ...unknown }) {
  const [name] = Object.keys(unknown);
  if (name) throw new TypeError(`options: got ${name}, which is none`);
  return { visitor, decision_id: decisionId, visitor_id: visitorId, defer };
}

/** What answers to both have in common. */
function answered(answer) {
  return {
    id: answer.decision_id,
    model: answer.model,
    arm: answer.arm ?? CHAMPION,
    ignored: answer.ignored ?? [],
    warnings: answer.warnings ?? [],
  };
}

/** Return what an answer holds; throws a `ServiceError` for a refusal, or none. */
function contentOf({ status, text }, url) {
  if (status === 0) {
    throw new ServiceError(`${url}: the service cannot be reached (${text}); start it, or name where it listens`, 0);
  }
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    throw new ServiceError(`${url}: got status ${status} and no JSON: is this a zoosim service?`, status);
  }
  if (status >= 400) throw new ServiceError(content.error ?? text, status);
  return content;
}

/** Refuse numbers that JSON would turn into null: a reward that is none must not look like one that was left out. */
function finite(name, value) {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new TypeError(`request: ${name}: got ${value}, expected a finite number`);
  }
  return value;
}

/** Return a new id; secrecy is not asked of it, and Node 18 has no global `crypto`. */
function newId() {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto) crypto.getRandomValues(bytes);
  else bytes.forEach((_, place) => { bytes[place] = 256 * Math.random(); });
  return Array.from(bytes, byte => byte.toString(16).padStart(2, "0")).join("");
}

// All pages of this script, each under the first word of its address.
import { offer } from "../island/later.js";
import { Device } from "./device.js";
import { Doctor } from "./doctor.js";
import { Failures } from "./failures.js";
import { Drones, Offers } from "./installation.js";
import { Me } from "./me.js";
import { Audit, People, Tokens } from "./people.js";
import { Schedules } from "./schedules.js";
import { Triggers } from "./triggers.js";
import { UsagePage } from "./usage.js";
import { Versus } from "./versus.js";
import { Webhooks } from "./webhooks.js";

["agents", "tools", "models", "mcp-servers"].forEach((kind) => offer(kind, Offers));

offer("drones", Drones);
offer("schedules", Schedules);
offer("triggers", Triggers);
offer("webhooks", Webhooks);
offer("usage", UsagePage);
offer("doctor", Doctor);
offer("device", Device);
offer("people", People);
offer("tokens", Tokens);
offer("audit", Audit);
offer("me", Me);
offer("failures", Failures);
offer("versus", Versus);

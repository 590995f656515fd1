// What is installed, for more than one part of the screen.
import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import { SkillService } from "../../gen/palyra/v1/skill_pb";

/** All versions of all skills, as the gateway has them. */
export function useSkills() {
  return useQuery({ queryKey: ["skills"], queryFn: ({ signal }) => client(SkillService).listSkills({}, { signal }) });
}

// The query of the installed skills.
import { useQuery } from "@tanstack/react-query";
import { client } from "../../api/transport";
import { SkillService } from "../../gen/palyra/v1/skill_pb";

/** Queries all versions of all skills. */
export function useSkills() {
  return useQuery({ queryKey: ["skills"], queryFn: ({ signal }) => client(SkillService).listSkills({}, { signal }) });
}
